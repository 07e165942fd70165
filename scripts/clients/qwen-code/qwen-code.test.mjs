// Qwen Code's own program, headless. It sends no id of any kind: what belongs
// together is known by its content alone.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { desk, program } from "../lib/agent.mjs";
import { grouped, stays } from "../lib/claims.mjs";
import { model, startDemo } from "../lib/warden.mjs";

const qwen = program("qwen-code", "@qwen-code/qwen-code/cli-entry.js");

describe("Qwen Code", { skip: qwen.missing }, () => {
  let warden, d;
  before(async () => {
    warden = await startDemo({ engine: ["--sim-speed", "4"] });
    d = await desk(warden, {
      argv: [process.execPath, qwen.path, "--auth-type", "openai"],
      env: (url) => ({ OPENAI_BASE_URL: `${url}/v1`, OPENAI_API_KEY: "x", OPENAI_MODEL: model }),
    });
    d.write(".qwen/settings.json", JSON.stringify({ privacy: { usageStatisticsEnabled: false }, general: { enableAutoUpdate: false } }));
  });
  after(async () => {
    await d?.leave();
    await warden?.stop();
  });

  test("a tool loop stays, the memory agent with its history is another conversation", async () => {
    const tool = (path) => `[[tool:glob {"pattern":"${path}"}]]`;
    const { out } = await d.run("-p", `${tool("*.go")} ${tool("*.py")} [[sim:say done]]`);
    assert.match(out, /SIMULATED done/);
    for (const t of d.turns()) assert.equal(t.headers["x-session-id"], undefined);
    const lanes = grouped(d.turns(), (t) => t.body.messages[0].content);
    const [main, ...others] = lanes.values();
    assert.equal(main.length, 3);
    stays(main);
    assert.equal((await warden.status()).totals.sessions_seen, 1 + others.length);
  });
});
