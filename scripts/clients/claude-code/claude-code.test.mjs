// Claude Code's own program, headless, configured by `warden env claude-code`.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { desk, program } from "../lib/agent.mjs";
import { cancelled, grouped, idle, spread, stays, survives } from "../lib/claims.mjs";
import { cachedTokens, events } from "../lib/recorder.mjs";
import { model, startDemo, until } from "../lib/warden.mjs";

const claude = program("claude-code", `@anthropic-ai/claude-code-linux-${process.arch}/claude`);
const atDesk = (warden, env) => desk(warden, { argv: [claude.path], client: "claude-code", env });
const sessions = async (warden) => (await warden.status()).totals.sessions_seen;

describe("Claude Code", { skip: claude.missing }, () => {
  let warden, d;
  before(async () => {
    // A cache of 8192 blocks holds a context in which it need not compact.
    warden = await startDemo({ engine: ["--sim-speed", "4", "--num-gpu-blocks-override", "8192"] });
    d = await atDesk(warden);
  });
  after(async () => {
    await d?.leave();
    await warden?.stop();
  });
  const newTurns = () => {
    const from = d.turns().length;
    return () => d.turns().slice(from);
  };

  test("three turns stay, a fork follows them, a compaction is free to move", async () => {
    const turns = newTurns();
    await d.run("-p", "hi");
    await d.run("-c", "-p", "and then?");
    await d.run("-c", "-p", "and then?");
    assert.equal(turns().length, 3);
    stays(turns());

    await d.run("-c", "--fork-session", "-p", "another way");
    const fork = turns()[3];
    assert.notEqual(fork.headers["x-claude-code-session-id"], turns()[0].headers["x-claude-code-session-id"]);
    assert.equal(fork.replica, turns()[0].replica, fork.reason);
    assert.equal(fork.reason, "inherit");
    assert.ok(cachedTokens(fork) > cachedTokens(turns()[2]), "the whole old history is cached");

    await d.run("-c", "-p", "/compact");
    const compaction = turns()[4];
    assert.equal(compaction.headers["x-claude-code-request-class"], "compaction");
    assert.ok(cachedTokens(compaction) > cachedTokens(fork), "the summary is written where the history is");
    const seen = await sessions(warden);
    await d.run("-c", "-p", "go on");
    const next = turns().at(-1);
    assert.equal(next.headers["x-claude-code-session-id"], compaction.headers["x-claude-code-session-id"]);
    assert.notEqual(next.reason, "sticky");
    assert.equal(await sessions(warden), seen, "still the same conversation");
  });

  test("a tool loop stays", async () => {
    const turns = newTurns();
    const tool = (command) => `[[tool:Bash {"command":"echo ${command}","description":"say it"}]]`;
    const { out } = await d.run("-p", `${tool("one")} ${tool("two")} [[sim:say done]]`, "--allowedTools", "Bash");
    assert.match(out, /SIMULATED done/);
    assert.equal(turns().length, 3);
    stays(turns());
  });

  test("two sub-agents run on two replicas, neither of them the main loop's", async () => {
    const turns = newTurns();
    const agent = (n) => `[[tool:Agent {"description":"part ${n}","prompt":"part ${n} [[sim:words 200]]","subagent_type":"general-purpose"}]]`;
    await d.run("-p", `${agent(1)}+${agent(2)} [[sim:say done]]`, "--allowedTools", "Agent");
    const lanes = grouped(turns(), (turn) => turn.headers["x-claude-code-agent-id"] ?? "main");
    assert.equal(lanes.size, 3);
    spread([...lanes.values()]);
    stays(lanes.get("main"));
    assert.equal(new Set(turns().map((t) => t.headers["x-claude-code-session-id"])).size, 1);
  });

  test("token counts and probes create no conversation", async () => {
    const [seen, before] = [await sessions(warden), d.exchanges.length];
    await d.run("-p", "/context");
    const counts = d.exchanges.slice(before);
    assert.ok(counts.length > 5, `${counts.length} requests`);
    for (const c of counts) {
      assert.match(c.path, /count_tokens/);
      assert.equal(c.status, 200, c.answer);
    }
    for (const path of ["/", "/api/hello"]) { // what it asks at its start, without the switches of `warden env`
      assert.ok((await fetch(d.url + path, { method: "HEAD" })).status < 500);
    }
    assert.equal(await sessions(warden), seen);
  });

  // Claude Code keeps the input_tokens of message_start, the whole prompt, when
  // those of message_delta are 0, and adds the cached ones to them: it then
  // believes in a context twice as long and compacts. vLLM says 0 when a prompt
  // ends with a block; warden makes it 1.
  test("no stream ends with input_tokens 0", async () => {
    const longer = Array.from({ length: 16 }, (_, n) => "a ".repeat(64 + n)); // one of them ends with its block of 16
    for (const content of longer) {
      const body = JSON.stringify({ model, stream: true, max_tokens: 4, messages: [{ role: "user", content }] });
      await (await fetch(`${d.url}/v1/messages`, { method: "POST", headers: { "content-type": "application/json" }, body })).text();
    }
    const prompts = d.turns().slice(-longer.length).map((t) => {
      const [first, last] = [events(t).find((e) => e.type === "message_start").message.usage, events(t).find((e) => e.type === "message_delta").usage];
      assert.equal(first.input_tokens, last.input_tokens + (last.cache_read_input_tokens ?? 0) + (last.cache_creation_input_tokens ?? 0));
      return last.input_tokens;
    });
    assert.ok(Math.max(...prompts) < 16, `${prompts}: the engine reports the cache`);
    assert.ok(Math.min(...prompts) > 0, `${prompts}`);
  });

  test("an answer stops when the client is killed", async () => {
    const turns = newTurns();
    await cancelled(warden, d.start(["-p", "[[sim:words 3000]]"]), () => turns()[0] ?? { answer: "" });
  });

  test("an answer whose replica dies comes from another one", async () => {
    const turns = newTurns();
    await survives(warden, d.start(["-p", "[[sim:words 1000]]"]), turns);
    await until(async () => (await warden.run("status")).code === 0, { limit: 30_000, what: "the replica is back" });
  });

  test("a turn waits for a replica that is coming back", async () => {
    const one = await startDemo({ dp: 1, engine: ["--sim-speed", "4"] });
    const alone = await atDesk(one);
    try {
      await one.run("kill", "r0");
      await alone.run("-p", "hi");
      assert.equal(alone.turns().length, 1, "asked once");
      assert.equal(alone.turns()[0].status, 200);
      await idle(one);
    } finally {
      await alone.leave();
      await one.stop();
    }
  });

  // The engines up to vLLM 0.31 refuse a prompt and max_tokens that do not fit
  // together; later ones answer with what is left.
  test("a context that is too small for the answer heals with one more request", async () => {
    const small = await startDemo({ dp: 1, engine: ["--sim-speed", "4", "--sim-dialect", "0.26", "--max-model-len", "39984"] });
    const tight = await atDesk(small, () => ({ CLAUDE_CODE_MAX_OUTPUT_TOKENS: "32000" }));
    try {
      await tight.run("-p", "hi");
      assert.deepEqual(tight.turns().map((t) => t.status), [400, 200]);
      assert.ok(tight.turns()[1].body.max_tokens < 39984 - 10_000);
    } finally {
      await tight.leave();
      await small.stop();
    }
  });
});
