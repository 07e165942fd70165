// Starts a warden with simulated engines for one test file and stops it again.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

const binary = process.env.WARDEN_BIN;

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

export async function startWarden(...flags) {
  if (!binary) throw new Error("WARDEN_BIN must name the warden binary (make test-clients sets it)");
  const home = mkdtempSync(join(tmpdir(), "wc-"));
  const port = await freePort();
  const env = { PATH: process.env.PATH, HOME: home, XDG_RUNTIME_DIR: home, XDG_STATE_HOME: home };
  const args = ["up", "--demo", "--demo-sessions", "0", "--dp", "4", "--progress", "plain", "--no-tui", "--listen", `127.0.0.1:${port}`, ...flags];
  const child = spawn(binary, args, { env, cwd: home, stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (output += chunk));
  const ended = new Promise((resolve) => child.once("exit", (code, signal) => resolve({ code, signal })));
  const url = `http://127.0.0.1:${port}`;
  const run = (...command) =>
    new Promise((resolve) => {
      const p = spawn(binary, command, { env, cwd: home });
      let out = "";
      p.stdout.on("data", (chunk) => (out += chunk));
      p.stderr.on("data", (chunk) => (out += chunk));
      p.once("exit", (code) => resolve({ code, out }));
    });
  await Promise.race([
    ended.then((end) => { throw new Error(`warden ended while starting: ${JSON.stringify(end)}\n${output}`); }),
    (async () => {
      while ((await run("status")).code !== 0) await new Promise((r) => setTimeout(r, 100));
    })(),
  ]);
  return {
    url,
    run,
    async stop() {
      child.kill("SIGTERM");
      const end = await ended;
      rmSync(home, { recursive: true, force: true });
      if (end.code !== 0) throw new Error(`warden ended with ${JSON.stringify(end)}\n${output}`);
    },
  };
}

export const words = (n) => Array.from({ length: n }, (_, i) => `word${(i * 7919) % 1000}`).join(" ");
