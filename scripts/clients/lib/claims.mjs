// What must hold of the requests of one conversation, whatever the client.
import assert from "node:assert/strict";
import { cachedTokens } from "./recorder.mjs";
import { until } from "./warden.mjs";

// stays claims that all turns after the first went to its replica for the sake
// of what it remembers, and that the engine read ever more from its cache.
export function stays(turns) {
  assert.ok(turns.length > 1, `${turns.length} turns`);
  assert.ok(turns[0].replica, "the replica is named in x-warden-replica");
  for (const [i, turn] of turns.entries()) {
    assert.equal(turn.status, 200, turn.answer);
    assert.equal(turn.replica, turns[0].replica, `turn ${i + 1} left its replica (${turn.reason})`);
    if (i === 0) continue;
    assert.equal(turn.reason, "sticky", `turn ${i + 1}`);
    const [before, now] = [cachedTokens(turns[i - 1]), cachedTokens(turn)];
    assert.ok(now > before, `turn ${i + 1}: ${now} cached tokens after ${before}`);
  }
}

// grouped sorts turns into conversations.
export function grouped(turns, key) {
  const groups = new Map();
  for (const turn of turns) groups.set(key(turn), [...(groups.get(key(turn)) ?? []), turn]);
  return groups;
}

// spread claims that these conversations went to different replicas.
export function spread(conversations) {
  const replicas = conversations.map((turns) => turns[0].replica);
  assert.equal(new Set(replicas).size, replicas.length, `on ${replicas}`);
}

// idle waits until nothing is held or computed any more.
export const idle = (warden, limit) =>
  until(async () => (await warden.status()).replicas.every((r) => r.held === 0 && r.engine?.running === 0), { limit, what: "no request runs" });

// cancelled claims that the engine stops soon after its client has left: the
// answer that it was at would take it much longer.
export async function cancelled(warden, client, turn) {
  await until(() => turn().answer.includes("delta"), { limit: 30_000, what: "the answer has begun" });
  assert.equal((await warden.status()).totals.held, 1);
  client.kill("SIGKILL");
  await client.ended;
  await idle(warden, 5_000);
  assert.ok(turn().gone > 0, "the client has left before the end");
}

// survives claims that a client whose replica dies in the middle of an answer
// gets the answer from another one.
export async function survives(warden, client, turns) {
  await until(() => turns()[0]?.answer.includes("delta"), { limit: 30_000, what: "the answer has begun" });
  const { replica } = turns()[0];
  assert.equal((await warden.run("kill", replica)).code, 0);
  const end = await client.ended;
  assert.equal(end.code, 0, JSON.stringify(end));
  assert.match(end.out, /SIMULATED/);
  const last = turns().at(-1);
  assert.equal(turns().length, 2, "asked again once");
  assert.notEqual(last.replica, replica);
  assert.equal(last.reason, "failover");
}
