// Codex's own program, headless, configured by `warden env codex`.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { desk, program } from "../lib/agent.mjs";
import { cancelled, grouped, spread, stays, survives } from "../lib/claims.mjs";
import { cachedTokens, events } from "../lib/recorder.mjs";
import { startDemo, until } from "../lib/warden.mjs";

const target = { x64: "x86_64", arm64: "aarch64" }[process.arch];
const codex = program("codex", `@openai/codex-linux-${process.arch}/vendor/${target}-unknown-linux-musl/bin/codex`);

// Codex keeps its sub-agents' tools in a namespace, which the simulated engine
// does not know: it calls spawn_agent by that name alone.
const withNamespace = (line) => (line.includes(`"name":"spawn_agent"`) ? line.replaceAll(`"namespace":null`, `"namespace":"multi_agent_v1"`) : line);

const atDesk = (warden) =>
  desk(warden, { argv: [codex.path, "exec", "--profile", "warden", "--skip-git-repo-check", "-s", "read-only"], client: "codex", amend: withNamespace });

describe("Codex", { skip: codex.missing, concurrency: true }, () => {
  // Waiting costs no processor, so this runs beside the others.
  test("without any replica it asks at most 6 times in 30 s", async () => {
    const warden = await startDemo({ dp: 1, engine: ["--sim-speed", "4"] });
    const d = await atDesk(warden);
    try {
      assert.equal((await warden.run("drain", "--wait", "r0")).code, 0);
      const end = await d.start(["hi"], { limit: 30_000 }).ended;
      assert.ok(d.turns().length <= 6, `${d.turns().length} requests`);
      assert.ok(d.turns().length > 0, JSON.stringify(end));
      for (const t of d.turns()) {
        assert.ok([429, 503].includes(t.status), `${t.status}`);
        assert.match(t.retryAfter ?? "", /^([1-9]|[1-5]\d|60)$/);
      }
    } finally {
      await d.leave();
      await warden.stop();
    }
  });

  describe("with four replicas", { concurrency: false }, () => {
    let warden, d;
    before(async () => {
      warden = await startDemo({ engine: ["--sim-speed", "4"] });
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

    test("three turns stay, a fork follows them", async () => {
      const turns = newTurns();
      await d.run("hi");
      await d.run("resume", "--last", "and then?");
      await d.run("resume", "--last", "and then?");
      assert.equal(turns().length, 3);
      stays(turns());
      const thread = turns()[0].headers["thread-id"];
      await d.run("fork", thread, "another way");
      const fork = turns()[3];
      assert.notEqual(fork.headers["thread-id"], thread);
      assert.equal(fork.replica, turns()[0].replica, fork.reason);
      assert.ok(cachedTokens(fork) >= cachedTokens(turns()[2]), "the whole old history is cached");
    });

    test("a tool loop stays", async () => {
      const turns = newTurns();
      const tool = (command) => `[[tool:exec_command {"cmd":"echo ${command}"}]]`;
      const { out } = await d.run(`${tool("one")} ${tool("two")} [[sim:say done]]`);
      assert.match(out, /SIMULATED done/);
      assert.equal(turns().length, 3);
      stays(turns());
    });

    // The first user turn of all threads is one description of the directory,
    // which is no common history.
    test("two sub-agents run on two replicas", async () => {
      const turns = newTurns();
      const agent = (n) => `[[tool:spawn_agent {"message":"part ${n} [[sim:words 200]]"}]]`;
      await d.run(`${agent(1)}+${agent(2)} [[tool:exec_command {"cmd":"sleep 1"}]] [[sim:say done]]`);
      const threads = grouped(turns(), (turn) => turn.headers["thread-id"]);
      assert.equal(threads.size, 3, [...threads.keys()].join(" "));
      assert.equal(new Set(turns().map((t) => t.body.prompt_cache_key)).size, 1);
      const [root, ...children] = threads.values();
      stays(root);
      spread(children);
    });

    test("an answer stops when the client is killed", async () => {
      const turns = newTurns();
      await cancelled(warden, d.start(["[[sim:words 3000]]"]), () => turns()[0] ?? { answer: "" });
    });

    test("an answer whose replica dies comes from another one", async () => {
      const turns = newTurns();
      await survives(warden, d.start(["[[sim:words 1000]]"]), turns);
      await until(async () => (await warden.run("status")).code === 0, { limit: 30_000, what: "the replica is back" });
    });

    test("a prompt beyond the context is refused once", async () => {
      const turns = newTurns();
      const end = await d.start(["a ".repeat(50_000)]).ended;
      assert.notEqual(end.code, 0);
      assert.deepEqual(turns().map((t) => t.status), [400]);
      assert.equal(events(turns()[0])[0].error.code, "context_length_exceeded");
      assert.match(end.out + end.err, /ran out of room in the model's context window/, JSON.stringify(end));
    });
  });
});
