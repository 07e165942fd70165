// Package tiny is the built-in random model: a Llama of one layer with a byte
// tokenizer, written by warden itself, so that the real vLLM can be tried and
// tested with no GPU, no download and no weights.
//
// [Write] makes the model's directory; [Args] are the engine arguments to run
// it on the CPU with the KV capacity of the reference machine (40,000 tokens).
// [WriteHeavy] and [HeavyArgs] are a variant that takes as long per token, at a
// quarter of the lengths, as a 4 B model on a small GPU: for load tests.
//
// vLLM fills the weights itself from a fixed seed (--load-format dummy), so all
// replicas agree. The text that comes out is noise; what is real is everything
// else: scheduler, prefix cache, metrics, token counts. One byte of text is one
// token, so that a test can compute counts.
package tiny

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/lm-warden/warden/supervisor/internal/wholefile"
)

// Name is the alias under which warden offers the model.
const Name = "tiny"

const (
	contextTokens      = 32768 // that the model's position encoding covers
	servedContext      = 16384 // that Args asks for
	servedContextHeavy = 8192

	// 40,000 tokens of KV cache, and a quarter of that for the heavy variant,
	// whose lengths are divided by four.
	blockSize   = 32
	blocks      = 1250
	blocksHeavy = 313
)

// KVTokens is the KV capacity, in tokens, that vLLM reports with Args.
const KVTokens = blocks * blockSize

// HeavyKVTokens is the same with HeavyArgs.
const HeavyKVTokens = blocksHeavy * blockSize

// shape is the part of a Llama configuration in which the variants differ.
type shape struct {
	hidden, intermediate, layers, heads, kvHeads, headDim int
}

var (
	light = shape{hidden: 32, intermediate: 64, layers: 1, heads: 1, kvHeads: 1, headDim: 32}
	heavy = shape{hidden: 256, intermediate: 1024, layers: 4, heads: 4, kvHeads: 2, headDim: 64}
)

// Args are the engine arguments for the model of Write. The user's own follow
// them, so that the last one counts.
func Args() []string { return args(servedContext, blocks, "64M") }

// HeavyArgs are the engine arguments for the model of WriteHeavy.
func HeavyArgs() []string { return args(servedContextHeavy, blocksHeavy, "256M") }

// args: without an explicit KV size each replica would claim 0.92 of the
// machine's memory; the number of blocks then makes the capacity exact.
func args(context, blocks int, kvBytes string) []string {
	return []string{
		"--load-format", "dummy", "--dtype", "float32", "--enforce-eager",
		"--max-model-len", strconv.Itoa(context),
		"--max-num-batched-tokens", "2048",
		"--block-size", strconv.Itoa(blockSize),
		"--kv-cache-memory-bytes", kvBytes,
		"--num-gpu-blocks-override", strconv.Itoa(blocks),
		"--override-generation-config", `{"temperature":0}`,
	}
}

// Write makes dir a model directory that vLLM can load. It may be called
// again, also while an engine uses dir: files that are right stay untouched.
func Write(dir string) error { return write(dir, light) }

// WriteHeavy is Write for the variant for load tests.
func WriteHeavy(dir string) error { return write(dir, heavy) }

func write(dir string, s shape) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("cannot make the directory of the built-in model: %w", err)
	}
	// config.json last: with it the directory is a model.
	for _, f := range []struct {
		name    string
		content any
	}{
		{"tokenizer.json", tokenizer()},
		{"tokenizer_config.json", tokenizerConfig()},
		{"generation_config.json", generationConfig()},
		{"config.json", config(s)},
	} {
		if err := writeJSON(filepath.Join(dir, f.name), f.content); err != nil {
			return fmt.Errorf("cannot write the built-in model: %w", err)
		}
	}
	return nil
}

func writeJSON(path string, content any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // <|im_start|> shall stay readable
	enc.SetIndent("", " ")
	if err := enc.Encode(content); err != nil {
		return err
	}
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, b.Bytes()) {
		return nil
	}
	return wholefile.Write(path, b.Bytes(), 0o644)
}

func config(s shape) any {
	return map[string]any{
		"architectures":           []string{"LlamaForCausalLM"},
		"model_type":              "llama",
		"hidden_act":              "silu",
		"hidden_size":             s.hidden,
		"intermediate_size":       s.intermediate,
		"num_hidden_layers":       s.layers,
		"num_attention_heads":     s.heads,
		"num_key_value_heads":     s.kvHeads,
		"head_dim":                s.headDim,
		"vocab_size":              bytesInVocabulary + len(special),
		"max_position_embeddings": contextTokens,
		"rms_norm_eps":            1e-5,
		"rope_theta":              10000,
		"tie_word_embeddings":     true,
		"torch_dtype":             "float32",
		"bos_token_id":            idOf(endOfText),
		"eos_token_id":            idOf(endOfTurn),
	}
}

func generationConfig() any {
	return map[string]any{"bos_token_id": idOf(endOfText), "eos_token_id": idOf(endOfTurn)}
}
