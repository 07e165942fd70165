// Runs a client program the way its user does, in a home of its own.
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { record } from "./recorder.mjs";

const root = process.env.WARDEN_CLIENTS;
if (!root) throw new Error("WARDEN_CLIENTS must name the folder of installed clients (make test-clients sets it)");

// library requires a module of an installed set.
export const library = (set) => createRequire(join(root, set, "package.json"));

// program is the path of a file in an installed set. Where it was not
// installed, missing says so, for the skip option of a test.
export function program(set, file) {
  const path = join(root, set, "node_modules", file);
  return existsSync(path) ? { path, missing: false } : { path, missing: `${set} is not installed` };
}

// desk is a client's place: an empty home with an empty project in it, and a
// recorder between the client and a warden. argv begins every call. client is
// what `warden env` calls it; one that it does not know gets its environment
// from the recorder's address.
export async function desk(warden, { argv, client, env: environment = () => ({}), amend }) {
  const recorder = await record(warden.url, amend);
  const home = mkdtempSync(join(tmpdir(), "wh-"));
  const project = join(home, "project");
  mkdirSync(project);
  spawnSync("git", ["init", "-q"], { cwd: project, env: { PATH: process.env.PATH, HOME: home } });
  const write = (file, text) => {
    const path = join(home, file);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
  };
  const leave = async () => {
    await recorder.stop();
    rmSync(home, { recursive: true, force: true, maxRetries: 3 });
  };
  const env = environment(recorder.url);
  try {
    if (client) await configure();
  } catch (err) {
    await leave(); // a server that still listens would keep the test from ending
    throw err;
  }
  async function configure() {
    const { code, out } = await warden.run("env", client, "--json");
    if (code !== 0) throw new Error(out);
    const printed = JSON.parse(out.replaceAll(warden.url, recorder.url));
    for (const { name, value } of printed.env) env[name] ??= value;
    for (const { path, text } of printed.files) write(path, text);
  }
  // start starts the client with this environment and nothing else. What still
  // runs after the limit is killed, with all that it started.
  const start = (args, { limit = 60_000, input = "" } = {}) => {
    const child = spawn(argv[0], [...argv.slice(1), ...args], {
      cwd: project, detached: true, stdio: [input ? "pipe" : "ignore", "pipe", "pipe"],
      env: { PATH: process.env.PATH, HOME: home, ...env },
    });
    child.stdin?.end(input);
    const result = { out: "", err: "", timedOut: false };
    child.stdout.on("data", (chunk) => (result.out += chunk));
    child.stderr.on("data", (chunk) => (result.err += chunk));
    const kill = (signal) => {
      try { process.kill(-child.pid, signal); } catch { /* it has ended */ }
    };
    const timer = setTimeout(() => { result.timedOut = true; kill("SIGKILL"); }, limit);
    const ended = new Promise((resolve, reject) => {
      child.once("error", reject);
      child.once("exit", (code, signal) => {
        clearTimeout(timer);
        kill("SIGKILL"); // helpers that it left behind
        child.once("close", () => resolve({ ...result, code, signal }));
        // One that made a group of its own may hold the pipes for ever.
        setTimeout(() => [child.stdout, child.stderr].forEach((pipe) => pipe.destroy()), 5_000).unref();
      });
    });
    return { ended, kill };
  };
  const succeed = async (args, client) => {
    const end = await client.ended;
    if (end.code !== 0) throw new Error(`${args.join(" ")}: ${JSON.stringify(end)}`);
    return end;
  };
  return {
    ...recorder,
    start,
    run: (...args) => succeed(args, start(args)),
    // tell runs with a text on its standard input.
    tell: (input, ...args) => succeed(args, start(args, { input })),
    write,
    leave,
  };
}
