package tiny

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

func TestWriteIsIdempotent(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "tiny")
	if err := Write(dir); err != nil {
		t.Fatal(err)
	}
	before := stat(t, dir)
	if len(before) != 4 {
		t.Fatalf("files: %v", before)
	}
	if err := Write(dir); err != nil {
		t.Fatal(err)
	}
	for name, info := range stat(t, dir) {
		if !os.SameFile(info, before[name]) {
			t.Errorf("%s was replaced although nothing changed", name)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Write(dir); err != nil {
		t.Fatal(err)
	}
	var config struct {
		Hidden int `json:"hidden_size"`
		Vocab  int `json:"vocab_size"`
		EOS    int `json:"eos_token_id"`
	}
	read(t, dir, "config.json", &config)
	if config.Hidden != 32 || config.Vocab != 264 || config.EOS != 258 {
		t.Errorf("config after damage = %+v", config)
	}
}

// TestWriteFromSeveralReplicas: replicas of one model start together and all
// find a whole model.
func TestWriteFromSeveralReplicas(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := Write(dir); err != nil {
				t.Error(err)
			}
			if raw, err := os.ReadFile(filepath.Join(dir, "tokenizer.json")); err != nil || !json.Valid(raw) {
				t.Errorf("half a tokenizer: %d bytes, %v", len(raw), err)
			}
		})
	}
	wg.Wait()
	if files := stat(t, dir); len(files) != 4 {
		t.Errorf("files: %v", files)
	}
}

// TestTokenizer checks what tests compute with: a byte is a token whose id is
// its value, and no merge ever joins two.
func TestTokenizer(t *testing.T) {
	dir := t.TempDir()
	if err := Write(dir); err != nil {
		t.Fatal(err)
	}
	var tok struct {
		Added []struct {
			ID      int    `json:"id"`
			Content string `json:"content"`
			Special bool   `json:"special"`
		} `json:"added_tokens"`
		Model struct {
			Type   string         `json:"type"`
			Vocab  map[string]int `json:"vocab"`
			Merges []string       `json:"merges"`
		} `json:"model"`
	}
	read(t, dir, "tokenizer.json", &tok)
	if tok.Model.Type != "BPE" || tok.Model.Merges == nil || len(tok.Model.Merges) != 0 {
		t.Errorf("model %s with merges %v", tok.Model.Type, tok.Model.Merges)
	}
	ids := make([]int, 0, len(tok.Model.Vocab))
	for _, id := range tok.Model.Vocab {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for want, id := range ids {
		if id != want {
			t.Fatalf("ids have a gap at %d", want)
		}
	}
	// Fixed points of GPT-2's byte table.
	for char, id := range map[string]int{"A": 65, "Ġ": 32, "Ċ": 10, "Ā": 0, "ÿ": 255, "Ń": 173} {
		if got, ok := tok.Model.Vocab[char]; !ok || got != id {
			t.Errorf("vocabulary[%q] = %d, %v; want %d", char, got, ok, id)
		}
	}
	if len(ids) != 256 || len(tok.Added) != 8 {
		t.Fatalf("%d bytes and %d special tokens", len(ids), len(tok.Added))
	}
	if a := tok.Added[2]; a.ID != 258 || a.Content != "<|im_end|>" || !a.Special {
		t.Errorf("third special token = %+v", a)
	}
}

func TestVariantsDiffer(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	if err := Write(a); err != nil {
		t.Fatal(err)
	}
	if err := WriteHeavy(b); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"config.json", "tokenizer.json"} {
		x, _ := os.ReadFile(filepath.Join(a, name))
		y, _ := os.ReadFile(filepath.Join(b, name))
		if same := string(x) == string(y); same != (name == "tokenizer.json") {
			t.Errorf("%s equal in both variants: %v", name, same)
		}
	}
}

func TestArgs(t *testing.T) {
	for name, tc := range map[string]struct {
		args            []string
		blocks, context string
		kv              int
	}{
		"light": {Args(), "1250", "16384", 40000},
		"heavy": {HeavyArgs(), "313", "8192", 10016},
	} {
		for _, pair := range [][2]string{
			{"--num-gpu-blocks-override", tc.blocks}, {"--block-size", "32"}, {"--max-model-len", tc.context},
			{"--load-format", "dummy"}, {"--override-generation-config", `{"temperature":0}`},
		} {
			i := slices.Index(tc.args, pair[0])
			if i < 0 || tc.args[i+1] != pair[1] {
				t.Errorf("%s: %s is not %s in %q", name, pair[0], pair[1], tc.args)
			}
		}
		if got := map[string]int{"light": KVTokens, "heavy": HeavyKVTokens}[name]; got != tc.kv {
			t.Errorf("%s: KV tokens = %d, want %d", name, got, tc.kv)
		}
	}
}

func stat(t *testing.T, dir string) map[string]os.FileInfo {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]os.FileInfo{}
	for _, e := range entries {
		info, err := os.Stat(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		out[e.Name()] = info
	}
	return out
}

func read(t *testing.T, dir, name string, into any) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// One byte is one token, and so is a special token.
func TestLengthsOfTheTemplate(t *testing.T) {
	template := chatTemplate
	for _, token := range special {
		template = strings.ReplaceAll(template, token, "#")
	}
	message, rest, _ := strings.Cut(strings.TrimPrefix(template, "{% for message in messages %}"), "{% endfor %}")
	for _, role := range []string{"system", "user", "assistant"} {
		said := strings.NewReplacer("{{ message['role'] }}", role, "{{ message['content'] or '' }}", "").Replace(message)
		if len(said) != MessageTokens(role) {
			t.Errorf("%q is %d tokens, want %d", said, len(said), MessageTokens(role))
		}
	}
	prompt := strings.NewReplacer("{% if add_generation_prompt %}", "", "{% endif %}", "").Replace(rest)
	if len(prompt) != PromptTokens {
		t.Errorf("%q is %d tokens, want %d", prompt, len(prompt), PromptTokens)
	}
}
