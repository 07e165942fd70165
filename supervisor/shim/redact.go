package shim

import (
	"regexp"
	"strings"
)

// redactor hides the engine's secrets in its output: old vLLM versions print --api-key and --hf-token at start.
type redactor struct{ known *strings.Replacer }

// hidden replaces a secret.
const hidden = "[hidden]"

// minSecret: a shorter value would hide ordinary words.
const minSecret = 8

var (
	secretName = regexp.MustCompile(`(?i)(^|_)(token|key|secret|password)$`) // not --tokenizer, not --max-num-batched-tokens
	// Hugging Face tokens and OpenAI-like keys, wherever they came from.
	secretForm = regexp.MustCompile(`\b(hf_|sk-)[A-Za-z0-9_-]{16,}`)
)

// newRedactor knows the secrets in an environment and in a command line.
func newRedactor(env, argv []string) redactor {
	var pairs []string
	add := func(name, value string) {
		if secretName.MatchString(name) && len(value) >= minSecret {
			pairs = append(pairs, value, hidden)
		}
	}
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		add(name, value)
	}
	for i, arg := range argv {
		if name, value, found := strings.Cut(arg, "="); found {
			add(strings.ReplaceAll(name, "-", "_"), value)
		} else if i+1 < len(argv) && strings.HasPrefix(arg, "--") && !strings.HasPrefix(argv[i+1], "--") {
			add(strings.ReplaceAll(arg, "-", "_"), argv[i+1])
		}
	}
	if len(pairs) == 0 {
		return redactor{}
	}
	return redactor{known: strings.NewReplacer(pairs...)}
}

func (r redactor) apply(text string) string {
	if r.known != nil {
		text = r.known.Replace(text)
	}
	if strings.Contains(text, "hf_") || strings.Contains(text, "sk-") {
		text = secretForm.ReplaceAllString(text, hidden)
	}
	return text
}
