package tune

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Model is what a model's config.json says about its KV cache.
type Model struct {
	Layers, KVHeads, HeadDim int
	// MaxPosition is the longest context, in tokens; 0 unknown.
	MaxPosition int
	// Latent is the number of values that a layer keeps per token where keys
	// and values are compressed into one (DeepSeek's MLA); 0 = keys and values
	// of each head.
	Latent int
	// Hybrid names the layers that keep something else than the keys and values
	// of all tokens (a state, a window); "" = none does.
	Hybrid string
}

// Known reports whether KVBytes means anything.
func (m Model) Known() bool { return m.KVBytes(1) > 0 }

// numberBytes is the size of one number of the KV cache when its type is auto:
// that of the weights, and bfloat16 where those are float32.
const numberBytes = 2

// KVBytes is the KV cache of one token in bytes, over all of tp GPUs, with KV
// type auto. GPUs beyond the number of KV heads keep copies of them.
func (m Model) KVBytes(tp int) int {
	tp = max(tp, 1)
	if m.Latent > 0 { // every GPU keeps all of it
		return m.Layers * m.Latent * numberBytes * tp
	}
	perGPU := (m.KVHeads + tp - 1) / tp
	return 2 * m.Layers * perGPU * m.HeadDim * numberBytes * tp
}

// modelConfig is the part of config.json that is read. Multi-modal models keep
// it under text_config.
type modelConfig struct {
	Text *modelConfig `json:"text_config"`

	Layers      int  `json:"num_hidden_layers"`
	Heads       int  `json:"num_attention_heads"`
	KVHeads     *int `json:"num_key_value_heads"`
	Hidden      int  `json:"hidden_size"`
	HeadDim     int  `json:"head_dim"`
	MaxPosition int  `json:"max_position_embeddings"`

	LatentRank int `json:"kv_lora_rank"`
	RopeDim    int `json:"qk_rope_head_dim"`

	LayerTypes       []string        `json:"layer_types"`
	SlidingWindow    json.RawMessage `json:"sliding_window"`
	UseSlidingWindow *bool           `json:"use_sliding_window"`
}

// stateful are keys that only models with state-space or linear layers have.
var stateful = []string{"mamba_", "ssm_", "linear_num_", "full_attention_interval", "hybrid_override_pattern", "layers_block_type", "attn_layer_period"}

// ReadModel reads the config.json in a model's directory.
func ReadModel(dir string) (Model, error) {
	raw, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		return Model{}, err
	}
	return ParseModel(raw)
}

// ParseModel reads a config.json. What it does not say stays 0: the Model is
// then not Known.
func ParseModel(raw []byte) (Model, error) {
	var c modelConfig
	if err := json.Unmarshal(raw, &c); err != nil {
		return Model{}, fmt.Errorf("config.json: %w", err)
	}
	if c.Text != nil {
		c = *c.Text
	}
	m := Model{
		Layers: bounded(c.Layers), KVHeads: bounded(c.Heads), HeadDim: bounded(c.HeadDim),
		MaxPosition: max(c.MaxPosition, 0),
	}
	if c.KVHeads != nil {
		m.KVHeads = bounded(*c.KVHeads)
	}
	if m.HeadDim == 0 && c.Heads > 0 {
		m.HeadDim = bounded(c.Hidden / c.Heads)
	}
	if c.LatentRank > 0 {
		m.Latent = bounded(c.LatentRank) + bounded(c.RopeDim)
	}
	m.Hybrid = c.hybrid(raw)
	return m, nil
}

// bounded keeps damaged files from overflowing a product: no model has a
// million of anything that is multiplied here.
func bounded(n int) int {
	if n < 0 || n > 1<<20 {
		return 0
	}
	return n
}

// hybrid names the first sign of layers without a full KV cache.
func (c modelConfig) hybrid(raw []byte) string {
	for _, t := range c.LayerTypes {
		if t != "full_attention" && t != "attention" {
			return strings.ReplaceAll(t, "_", " ") + " layers"
		}
	}
	var keys map[string]json.RawMessage
	if json.Unmarshal(raw, &keys) == nil {
		if text, ok := keys["text_config"]; ok {
			_ = json.Unmarshal(text, &keys) // adds to the outer keys; ParseModel has read it without an error
		}
		for _, stem := range stateful {
			for key := range keys {
				if strings.HasPrefix(key, stem) {
					return "state-space or linear layers"
				}
			}
		}
	}
	window := string(c.SlidingWindow)
	if window != "" && window != "null" && window != "0" && (c.UseSlidingWindow == nil || *c.UseSlidingWindow) && len(c.LayerTypes) == 0 {
		return "sliding attention layers"
	}
	return ""
}
