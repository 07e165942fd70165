// Six-turn conversations over the official SDKs stay on one replica, and the
// cached tokens that the engine reports grow with the conversation.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { library } from "../lib/agent.mjs";
import { model, startDemo, words } from "../lib/warden.mjs";

const sdk = library("sdk");
const { Anthropic } = sdk("@anthropic-ai/sdk");
const { OpenAI } = sdk("openai");
const turns = 6;
let warden;

before(async () => { warden = await startDemo(); });
after(async () => { await warden?.stop(); });

const openai = (headers) => new OpenAI({ baseURL: `${warden.url}/v1`, apiKey: "unused", defaultHeaders: headers, maxRetries: 0 });
const anthropic = (headers) => new Anthropic({ baseURL: warden.url, apiKey: "unused", defaultHeaders: headers, maxRetries: 0 });

// oneReplica checks what all conversations must show.
function oneReplica(seen) {
  assert.equal(seen.length, turns);
  assert.deepEqual([...new Set(seen.map((s) => s.replica))], [seen[0].replica], "every turn on one replica");
  assert.ok(seen[0].replica, "the replica is named in x-warden-replica");
  for (let i = 1; i < seen.length; i++) {
    assert.ok(seen[i].cached > seen[i - 1].cached, `turn ${i + 1}: cached ${seen[i].cached} after ${seen[i - 1].cached}`);
    assert.ok(seen[i].cached <= seen[i].prompt, "no more cached than sent");
    assert.equal(seen[i].reason, "sticky");
  }
}

const where = (response) => ({ replica: response.headers.get("x-warden-replica"), reason: response.headers.get("x-warden-reason") });

async function openaiConversation(client, stream) {
  const messages = [{ role: "system", content: words(400) }];
  const seen = [];
  for (let n = 0; n < turns; n++) {
    messages.push({ role: "user", content: `turn ${n}: ${words(60 + n)}` });
    const request = { model, messages, max_tokens: 24 };
    let text = "", usage, response;
    if (stream) {
      const { data, response: r } = await client.chat.completions
        .create({ ...request, stream: true, stream_options: { include_usage: true } }).withResponse();
      response = r;
      for await (const chunk of data) {
        text += chunk.choices[0]?.delta?.content ?? "";
        usage = chunk.usage ?? usage;
      }
    } else {
      const { data, response: r } = await client.chat.completions.create(request).withResponse();
      response = r;
      ({ usage } = data);
      text = data.choices[0].message.content;
    }
    assert.ok(text.length > 0);
    messages.push({ role: "assistant", content: text });
    seen.push({ ...where(response), cached: usage.prompt_tokens_details?.cached_tokens ?? 0, prompt: usage.prompt_tokens });
  }
  return seen;
}

test("OpenAI SDK, streaming", async () => {
  oneReplica(await openaiConversation(openai({ "x-session-id": "sdk-openai-stream" }), true));
});

test("OpenAI SDK, whole answers", async () => {
  oneReplica(await openaiConversation(openai({ "x-session-id": "sdk-openai-whole" }), false));
});

test("OpenAI SDK, a stream without usage gets none and stays", async () => {
  const client = openai({ "x-session-id": "sdk-openai-quiet" });
  const stream = await client.chat.completions.create({ model, messages: [{ role: "user", content: "hello" }], max_tokens: 8, stream: true });
  let chunks = 0;
  for await (const chunk of stream) {
    chunks++;
    assert.equal(chunk.usage ?? null, null, "usage was not asked for");
    assert.equal(chunk.choices.length, 1, "no chunk without choices");
  }
  assert.ok(chunks > 1);
});

test("OpenAI SDK, responses", async () => {
  const client = openai({ "x-session-id": "sdk-responses" });
  const answer = await client.responses.create({ model, input: words(200), max_output_tokens: 16 });
  assert.ok(answer.output_text.length > 0);
  const stream = await client.responses.create({ model, input: words(200), max_output_tokens: 16, stream: true });
  const types = [];
  for await (const event of stream) types.push(event.type);
  assert.equal(types[0], "response.created");
  assert.equal(types.at(-1), "response.completed");
});

async function anthropicConversation(client, stream, metadata) {
  const messages = [];
  const seen = [];
  for (let n = 0; n < turns; n++) {
    messages.push({ role: "user", content: `turn ${n}: ${words(60 + n)}` });
    const request = { model, system: words(400), messages, max_tokens: 24, metadata };
    let text = "", usage = {}, response;
    if (stream) {
      const { data, response: r } = await client.messages.create({ ...request, stream: true }).withResponse();
      response = r;
      for await (const event of data) {
        if (event.type === "content_block_delta") text += event.delta.text ?? "";
        if (event.type === "message_delta") usage = event.usage;
      }
    } else {
      const { data, response: r } = await client.messages.create(request).withResponse();
      response = r;
      ({ usage } = data);
      text = data.content.map((c) => c.text ?? "").join("");
    }
    assert.ok(text.length > 0);
    messages.push({ role: "assistant", content: text });
    const cached = usage.cache_read_input_tokens ?? 0;
    seen.push({ ...where(response), cached, prompt: usage.input_tokens + cached });
  }
  return seen;
}

test("Anthropic SDK, streaming, session header of Claude Code", async () => {
  oneReplica(await anthropicConversation(anthropic({ "x-claude-code-session-id": "11111111-1111-4111-8111-111111111111" }), true));
});

test("Anthropic SDK, whole answers, metadata.user_id of Claude Code 2", async () => {
  const user_id = JSON.stringify({ device_id: "00ff", account_uuid: "", session_id: "22222222-2222-4222-8222-222222222222" });
  oneReplica(await anthropicConversation(anthropic(), false, { user_id }));
});

test("Anthropic SDK, metadata.user_id of Claude Code 1", async () => {
  const user_id = `user_${"a".repeat(64)}_account__session_33333333-3333-4333-8333-333333333333`;
  oneReplica(await anthropicConversation(anthropic(), false, { user_id }));
});

test("Anthropic SDK, token counts", async () => {
  const { input_tokens } = await anthropic().messages.countTokens({ model, messages: [{ role: "user", content: words(50) }] });
  assert.ok(input_tokens > 20);
});

test("errors have the shape each SDK knows", async () => {
  await assert.rejects(openai().chat.completions.create({ model, messages: [], max_tokens: 8 }), OpenAI.APIError);
  await assert.rejects(anthropic().messages.create({ model, messages: [{ role: "user", content: words(60000) }], max_tokens: 8 }), (err) => {
    assert.ok(err instanceof Anthropic.BadRequestError, `${err}`);
    assert.equal(err.error?.type, "error");
    return true;
  });
});

test("models are listed", async () => {
  const ids = [];
  for await (const m of openai().models.list()) ids.push(m.id);
  assert.ok(ids.includes(model), `${ids}`);
});

test("`warden affinity off` changes the reasons of the next turns, on changes them back", async () => {
  const client = openai({ "x-session-id": "sdk-live" });
  const ask = async () => {
    const { response } = await client.chat.completions.create({ model, messages: [{ role: "user", content: "hi" }], max_tokens: 4 }).withResponse();
    return where(response).reason;
  };
  await ask();
  assert.equal(await ask(), "sticky");
  assert.equal((await warden.run("affinity", "off", model)).code, 0);
  assert.equal(await ask(), "balance");
  assert.equal((await warden.run("affinity", "on", model)).code, 0);
  assert.equal(await ask(), "sticky");
});
