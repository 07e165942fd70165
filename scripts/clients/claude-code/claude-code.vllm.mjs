// Claude Code against two real vLLM replicas on the CPU with the built-in
// random model. That makes one token of each byte, has 32768 positions, and its
// chat template leaves the tools out: all of Claude Code's prompt but its 60 KB
// of tools is read.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { desk, program } from "../lib/agent.mjs";
import { stays } from "../lib/claims.mjs";
import { cachedTokens, events } from "../lib/recorder.mjs";
import { startWarden } from "../lib/warden.mjs";

const claude = program("claude-code", `@anthropic-ai/claude-code-linux-${process.arch}/claude`);

describe("Claude Code on real vLLM", { skip: claude.missing }, () => {
  let warden;
  before(async () => {
    warden = await startWarden(
      ["--device", "cpu", "--model", "tiny", "--dp", "2", "--vllm", process.env.VLLM, "--",
        "--max-model-len", "32768", "--enable-auto-tool-choice", "--tool-call-parser", "hermes"],
      { limit: 300_000 });
  });
  after(() => warden?.stop());

  for (const flags of [[], ["--bare"]]) {
    test(`three turns of claude ${flags} stay, and vLLM reports ever more cached tokens`, async (t) => {
      // A random model never ends by itself, and Claude Code takes an answer
      // that max_tokens ended for a failure.
      const d = await desk(warden, {
        argv: [claude.path, ...flags], client: "claude-code", env: () => ({ CLAUDE_CODE_MAX_OUTPUT_TOKENS: "64" }),
        amend: (line) => line.replace(`"stop_reason":"max_tokens"`, `"stop_reason":"end_turn"`),
      });
      try {
        await d.run("-p", "hi");
        await d.run("-c", "-p", "and then?");
        await d.run("-c", "-p", "and then?");
        for (const turn of d.turns()) {
          const { message } = events(turn).find((e) => e.type === "message_start");
          t.diagnostic(`${turn.replica} ${turn.reason}: ${message.usage.input_tokens} tokens, ${cachedTokens(turn)} cached`);
        }
        assert.equal(d.turns().length, 3);
        stays(d.turns());
      } finally {
        await d.leave();
      }
    });
  }
});
