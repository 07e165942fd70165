package clients

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
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

func (s Setup) value(name string) string {
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
		s := Of("claude-code", Endpoint{URL: "http://127.0.0.1:8000", Model: "m", ContextTokens: test.context, Running: true})
		if got := s.value("CLAUDE_CODE_MAX_CONTEXT_TOKENS"); got != test.tokens {
			t.Errorf("context %d: told as %q, want %q", test.context, got, test.tokens)
		}
		if got := s.value("CLAUDE_CODE_MAX_OUTPUT_TOKENS"); got != test.answers {
			t.Errorf("context %d: answers of %q tokens, want %q", test.context, got, test.answers)
		}
		if got := strings.Contains(s.Text(), "--bare"); got != test.bare {
			t.Errorf("context %d: --bare recommended: %v, want %v", test.context, got, test.bare)
		}
		if unknown := strings.Contains(s.Text(), "context length is not known"); unknown != (test.context == 0) {
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
	s := Of("codex", Endpoint{URL: "http://127.0.0.1:8000", Model: `a"b`, ContextTokens: 40000, Running: true})
	text := uncommented(s.Text(), "#")
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
	s = Of("codex", Endpoint{URL: "http://127.0.0.1:8000", Model: "m"})
	if strings.Contains(uncommented(s.Text(), "#"), "context") {
		t.Errorf("a context length that nobody said:\n%s", s.Text())
	}
}

func TestOpencodeSetup(t *testing.T) {
	s := Of("opencode", Endpoint{URL: "http://[::1]:8000", Model: "qwen3-4b", ContextTokens: 40000, Running: true})
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
	if err := json.Unmarshal([]byte(uncommented(s.Text(), "//")), &config); err != nil {
		t.Fatalf("%v in\n%s", err, s.Text())
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

// Where warden asks for keys, each client takes one from a variable, and a shell
// that evaluates the setup without it stops: an agent would only be refused.
func TestKeysAreAskedFor(t *testing.T) {
	at := Endpoint{URL: "https://127.0.0.1:8000", Model: "m", ContextTokens: 40000, Running: true, Keys: true, Certificate: "/etc/tls.crt"}
	for client, want := range map[string]string{
		"claude-code": `export ANTHROPIC_AUTH_TOKEN="${WARDEN_KEY:?`,
		"codex":       `env_key = "WARDEN_KEY"` + "\n",
		"opencode":    `"apiKey": "{env:WARDEN_KEY}"`,
	} {
		text := Of(client, at).Text()
		if !strings.Contains(uncommented(text, "#"), want) || !strings.Contains(text, "/etc/tls.crt") || strings.Contains(text, keyNote) {
			t.Errorf("%s: no %q in\n%s", client, want, text)
		}
		open := at
		open.Keys, open.Certificate = false, ""
		if text := Of(client, open).Text(); strings.Contains(text, "WARDEN_KEY") || strings.Contains(text, "CERT") {
			t.Errorf("%s: a key or a certificate where none is asked for:\n%s", client, text)
		}
	}
	setup := Of("claude-code", at).Text()
	for key, ok := range map[string]bool{"": false, "wk-1 $x": true} {
		sh := exec.Command("sh", "-c", `eval "$1" && printf %s "$ANTHROPIC_AUTH_TOKEN"`, "sh", setup)
		sh.Env = []string{"WARDEN_KEY=" + key}
		if out, err := sh.Output(); (err == nil) != ok || string(out) != key {
			t.Errorf("WARDEN_KEY=%q: the shell has %q (%v)", key, out, err)
		}
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
		if got := Reachable(listen); got != want {
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
