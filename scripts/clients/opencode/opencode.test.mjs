// opencode's own program, headless, configured by `warden env opencode`.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { desk, program } from "../lib/agent.mjs";
import { grouped, spread, stays } from "../lib/claims.mjs";
import { startDemo } from "../lib/warden.mjs";

const opencode = program("opencode", `opencode-linux-${process.arch}/bin/opencode`);

describe("opencode", { skip: opencode.missing }, () => {
  let warden, d;
  before(async () => {
    warden = await startDemo({ engine: ["--sim-speed", "4"] });
    d = await desk(warden, {
      argv: [opencode.path, "run"], client: "opencode",
      env: () => ({ OPENCODE_DISABLE_AUTOUPDATE: "1", OPENCODE_DISABLE_MODELS_FETCH: "1" }),
    });
  });
  after(async () => {
    await d?.leave();
    await warden?.stop();
  });
  const session = (turn) => turn.headers["x-session-id"];
  // newTurns are those of conversations; titles have no tools.
  const newTurns = () => {
    const from = d.turns().length;
    return () => d.turns().slice(from).filter((t) => t.body.tools);
  };

  test("three turns stay, the title is none of them", async () => {
    const turns = newTurns();
    await d.run("hi");
    await d.run("-c", "and then?");
    await d.run("-c", "and then?");
    assert.equal(turns().length, 3);
    stays(turns());
    const titles = d.turns().filter((t) => !t.body.tools);
    assert.deepEqual(titles.map((t) => [session(t), t.reason]), [[session(turns()[0]), "aux"]]);
    assert.equal((await warden.status()).totals.sessions_seen, 1);
  });

  // A prompt among the arguments would have its quotes escaped.
  test("a tool loop stays", async () => {
    const turns = newTurns();
    const tool = (command) => `[[tool:bash {"command":"echo ${command}","description":"say it"}]]`;
    const { out } = await d.tell(`${tool("one")} ${tool("two")} [[sim:say done]]`);
    assert.match(out, /SIMULATED done/);
    assert.equal(turns().length, 3);
    stays(turns());
  });

  test("two sub-agents run on two replicas, neither of them the main loop's", async () => {
    const turns = newTurns();
    const agent = (n) => `[[tool:task {"description":"part ${n}","prompt":"part ${n} [[sim:words 200]]","subagent_type":"general"}]]`;
    await d.tell(`${agent(1)}+${agent(2)} [[sim:say done]]`);
    const lanes = grouped(turns(), session);
    assert.equal(lanes.size, 3);
    spread([...lanes.values()]);
    const [main, ...children] = lanes.values();
    stays(main);
    for (const [child] of children) assert.equal(child.headers["x-parent-session-id"], session(main[0]));
  });
});
