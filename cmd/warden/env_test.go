package main

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lm-warden/warden/cmd/internal/clients"
	"github.com/lm-warden/warden/cmd/internal/exit"
	"github.com/lm-warden/warden/supervisor/control"
)

func TestEnvWithoutWarden(t *testing.T) {
	home := newHome(t)
	run := func(args ...string) (string, int) {
		cmd := exec.Command(binary, append([]string{"env"}, args...)...)
		cmd.Env, cmd.Dir = environment(home), home
		out, _ := cmd.CombinedOutput()
		return string(out), cmd.ProcessState.ExitCode()
	}
	out, code := run("claude-code")
	if code != exit.OK || !strings.Contains(out, "No warden is running") || !strings.Contains(out, "ANTHROPIC_MODEL=MODEL\n") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	if out, code = run("codex", "--model", "qwen3-4b"); code != exit.OK || !strings.Contains(out, `model = "qwen3-4b"`) {
		t.Errorf("exit code %d\n%s", code, out)
	}
	if out, code = run("emacs"); code != exit.Usage {
		t.Errorf("unknown client: exit code %d\n%s", code, out)
	}
}

func TestEnvOfRunningWarden(t *testing.T) {
	w := start(t, "--dp", "1")
	status := w.waitFor(func(s control.Status) bool { return s.Models[0].MaxModelLen > 0 })
	out, code := w.runCommand("env", "claude-code", "--json")
	var s clients.Setup
	if err := json.Unmarshal([]byte(out), &s); code != exit.OK || err != nil {
		t.Fatalf("exit code %d, %v\n%s", code, err, out)
	}
	if !s.Running || s.URL != w.url || s.Model != "qwen3-4b" || s.ContextTokens != status.Models[0].MaxModelLen {
		t.Errorf("%+v, want %s with %d tokens", s.Endpoint, w.url, status.Models[0].MaxModelLen)
	}
	if out, code = w.runCommand("env", "codex", "--model", "other"); code != exit.Failed || !strings.Contains(out, "qwen3-4b") {
		t.Errorf("a model that is not served: exit code %d\n%s", code, out)
	}
	sh := exec.Command("sh", "-c", `eval "$(`+binary+` env claude-code)" && printf '%s %s' "$ANTHROPIC_BASE_URL" "$ANTHROPIC_MODEL"`)
	sh.Env, sh.Dir = environment(w.home), filepath.Dir(binary)
	if got, err := sh.Output(); err != nil || string(got) != w.url+" qwen3-4b" {
		t.Errorf("the shell has %q (%v)", got, err)
	}
}
