// Starts a warden in directories of its own and stops it again.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";

const binary = process.env.WARDEN_BIN;

export const model = "qwen3-4b";

function freePort() {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

// startDemo starts simulated replicas; engine are flags for each of them.
export const startDemo = ({ dp = 4, flags = [], engine = [] } = {}) =>
  startWarden(["--demo", "--demo-sessions", "0", "--dp", `${dp}`, ...flags, "--", ...engine]);

// startWarden runs `warden up` and returns when all replicas are ready.
export async function startWarden(flags, { limit = 60_000, env: more = {} } = {}) {
  if (!binary) throw new Error("WARDEN_BIN must name the warden binary (make test-clients sets it)");
  const home = mkdtempSync(join(tmpdir(), "wc-"));
  const url = `http://127.0.0.1:${await freePort()}`;
  const env = { PATH: process.env.PATH, HOME: home, XDG_RUNTIME_DIR: home, XDG_STATE_HOME: home, ...more };
  const child = spawn(binary, ["up", "--progress", "plain", "--no-tui", "--listen", url.slice("http://".length), ...flags], { env, cwd: home, stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (output += chunk));
  const ended = new Promise((resolve) => child.once("exit", (code, signal) => resolve({ code, signal })));
  // run is one command of the warden program against this warden.
  const run = (...command) =>
    new Promise((resolve, reject) => {
      const p = spawn(binary, command, { env, cwd: home, timeout: 60_000 });
      p.once("error", reject);
      let out = "";
      p.stdout.on("data", (chunk) => (out += chunk));
      p.stderr.on("data", (chunk) => (out += chunk));
      p.once("close", (code) => resolve({ code, out })); // "exit" may come before the last of its output
    });
  // stop insists on an orderly end.
  const stop = async () => {
    child.kill("SIGTERM");
    const end = await ended;
    rmSync(home, { recursive: true, force: true });
    if (end.code !== 0) throw new Error(`warden ended with ${JSON.stringify(end)}\n${output}`);
  };
  const status = async () => JSON.parse((await run("status", "--json")).out);
  const gone = new AbortController();
  try {
    await Promise.race([
      ended.then((end) => { throw new Error(`warden ended while starting: ${JSON.stringify(end)}\n${output}`); }),
      until(async () => (await run("status")).code === 0, { limit, what: "every replica is ready", signal: gone.signal }),
    ]);
  } catch (err) {
    gone.abort();
    child.kill("SIGTERM");
    await ended;
    rmSync(home, { recursive: true, force: true });
    throw err;
  }
  return { url, run, status, stop };
}

// until asks again and again until the answer is true.
export async function until(holds, { limit = 10_000, what, signal }) {
  for (const end = Date.now() + limit; !(await holds()); await wait(50, undefined, { signal })) {
    if (Date.now() > end) throw new Error(`not within ${limit} ms: ${what}`);
  }
}

export const words = (n) => Array.from({ length: n }, (_, i) => `word${(i * 7919) % 1000}`).join(" ");
