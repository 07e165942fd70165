package main

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lm-warden/warden/cmd/internal/exit"
	"github.com/lm-warden/warden/supervisor/control"
)

// uncommented is what a program reads of a configuration.
func uncommented(text, mark string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, mark) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

func (s clientSetup) value(name string) string {
	for _, v := range s.Env {
		if v.Name == name {
			return v.Value
		}
	}
	return ""
}

func TestClaudeCodeSetup(t *testing.T) {
	for _, test := range []struct {
		context         int
		tokens, answers string
		bare            bool // --bare is recommended
	}{
		{context: 0},
		{context: 32768, tokens: "32768", answers: "4096", bare: true},
		{context: 39984, tokens: "39984", answers: "4998", bare: true},
		{context: 131072, tokens: "131072", answers: "16384"},
		{context: 1 << 20, tokens: "1048576", answers: "32000"},
	} {
		s := setupOf("claude-code", endpoint{URL: "http://127.0.0.1:8000", Model: "m", ContextTokens: test.context, Running: true})
		if got := s.value("CLAUDE_CODE_MAX_CONTEXT_TOKENS"); got != test.tokens {
			t.Errorf("context %d: told as %q, want %q", test.context, got, test.tokens)
		}
		if got := s.value("CLAUDE_CODE_MAX_OUTPUT_TOKENS"); got != test.answers {
			t.Errorf("context %d: answers of %q tokens, want %q", test.context, got, test.answers)
		}
		if got := strings.Contains(s.text(), "--bare"); got != test.bare {
			t.Errorf("context %d: --bare recommended: %v, want %v", test.context, got, test.bare)
		}
		if unknown := strings.Contains(s.text(), "context length is not known"); unknown != (test.context == 0) {
			t.Errorf("context %d: said to be unknown: %v", test.context, unknown)
		}
		for _, name := range []string{"ANTHROPIC_MODEL", "ANTHROPIC_DEFAULT_HAIKU_MODEL", "CLAUDE_CODE_SUBAGENT_MODEL"} {
			if s.value(name) != "m" {
				t.Errorf("%s is %q", name, s.value(name))
			}
		}
	}
}

func TestCodexSetup(t *testing.T) {
	s := setupOf("codex", endpoint{URL: "http://127.0.0.1:8000", Model: `a"b`, ContextTokens: 40000, Running: true})
	text := uncommented(s.text(), "#")
	for _, want := range []string{
		`model = "a\"b"` + "\n", "model_context_window = 40000\n", "model_auto_compact_token_limit = 32000\n",
		"[model_providers.warden]\n", `base_url = "http://127.0.0.1:8000/v1"` + "\n", `wire_api = "responses"` + "\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no line %q in\n%s", want, text)
		}
	}
	if i, j := strings.Index(text, "web_search"), strings.Index(text, "[model_providers"); i > j {
		t.Error("web_search stands in a table")
	}
	s = setupOf("codex", endpoint{URL: "http://127.0.0.1:8000", Model: "m"})
	if strings.Contains(uncommented(s.text(), "#"), "context") {
		t.Errorf("a context length that nobody said:\n%s", s.text())
	}
}

func TestOpencodeSetup(t *testing.T) {
	s := setupOf("opencode", endpoint{URL: "http://[::1]:8000", Model: "qwen3-4b", ContextTokens: 40000, Running: true})
	var config struct {
		Model      string `json:"model"`
		SmallModel string `json:"small_model"`
		Provider   map[string]struct {
			Options struct{ BaseURL string } `json:"options"`
			Models  map[string]struct {
				Limit struct{ Context, Output int } `json:"limit"`
			} `json:"models"`
		} `json:"provider"`
	}
	if err := json.Unmarshal([]byte(uncommented(s.text(), "//")), &config); err != nil {
		t.Fatalf("%v in\n%s", err, s.text())
	}
	provider, name, _ := strings.Cut(config.Model, "/")
	p := config.Provider[provider]
	if config.SmallModel != config.Model || p.Options.BaseURL != "http://[::1]:8000/v1" || p.Models[name].Limit.Context != 40000 || p.Models[name].Limit.Output != 5000 {
		t.Errorf("read back as %+v", config)
	}
	if strings.HasPrefix(provider, "opencode") {
		t.Error("opencode sends no session id to a provider of that name")
	}
}

func TestReachable(t *testing.T) {
	for listen, want := range map[string]string{
		"http://127.0.0.1:8000":   "http://127.0.0.1:8000",
		"http://0.0.0.0:8000":     "http://127.0.0.1:8000",
		"http://[::]:8000":        "http://[::1]:8000",
		"http://192.168.1.5:8000": "http://192.168.1.5:8000",
		"http://gpu-box:8000":     "http://gpu-box:8000",
	} {
		if got := reachable(listen); got != want {
			t.Errorf("reachable(%q) = %q, want %q", listen, got, want)
		}
	}
}

func TestShellQuote(t *testing.T) {
	for _, word := range []string{"plain-1.5/x:y@z", "", "two words", "it's", "$HOME `id`", "a\\b\"c"} {
		out, err := exec.Command("sh", "-c", "printf %s "+shellQuote(word)).Output()
		if err != nil || string(out) != word {
			t.Errorf("shellQuote(%q) = %s, which sh reads as %q (%v)", word, shellQuote(word), out, err)
		}
	}
	if got := shellQuote("http://127.0.0.1:8000"); got != "http://127.0.0.1:8000" {
		t.Errorf("quoted without need: %s", got)
	}
}

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
	var s clientSetup
	if err := json.Unmarshal([]byte(out), &s); code != exit.OK || err != nil {
		t.Fatalf("exit code %d, %v\n%s", code, err, out)
	}
	if !s.Running || s.URL != w.url || s.Model != "qwen3-4b" || s.ContextTokens != status.Models[0].MaxModelLen {
		t.Errorf("%+v, want %s with %d tokens", s.endpoint, w.url, status.Models[0].MaxModelLen)
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
