package openai

import (
	"cmp"
	"encoding/json"
	"math"
	"math/rand/v2"

	"github.com/lm-warden/warden/supervisor/simengine/core"
	"github.com/lm-warden/warden/supervisor/simengine/server/api"
	"github.com/lm-warden/warden/supervisor/simengine/server/wire"
)

// Embeddings is the body of /v1/embeddings.
type Embeddings struct {
	Model      string          `json:"model"`
	Input      json.RawMessage `json:"input"`
	Dimensions int             `json:"dimensions"`
	Priority   int             `json:"priority"`
}

type embedding struct {
	Index     int       `json:"index"`
	Object    string    `json:"object"`
	Embedding []float64 `json:"embedding"`
}

type embeddingsOut struct {
	ID                string      `json:"id"`
	Object            string      `json:"object"`
	Created           int64       `json:"created"`
	Model             string      `json:"model"`
	Data              []embedding `json:"data"`
	Usage             usageInfo   `json:"usage"`
	SystemFingerprint *string     `json:"system_fingerprint,omitempty"` // not in the API: it carries the label
}

const (
	defaultDimensions = 64
	maxDimensions     = 4096
)

// Job has a task for each input: a prompt costs its prefill.
func (q *Embeddings) Job(s api.Settings) (api.Job, *wire.Error) {
	prompts, _, err := inputs(s.Tokenizer, q.Input, "input")
	if err == nil && (q.Dimensions < 0 || q.Dimensions > maxDimensions) {
		err = wire.BadRequest("dimensions", "dimensions must be between 1 and %d.", maxDimensions)
	}
	if err != nil {
		return api.Job{}, err
	}
	one := 1
	job := api.Job{Prefix: "embd-"}
	for _, tokens := range prompts {
		job.Tasks = append(job.Tasks, api.Task{
			Sampling: api.Sampling{Model: q.Model, MaxTokens: &one, IgnoreEOS: true, Priority: q.Priority}, Prompt: tokens,
		})
	}
	return job, nil
}

// Vectors is the reply, once the tasks are done: unit vectors drawn from the
// tokens. Equal inputs give equal vectors, and that is all they mean.
func (q *Embeddings) Vectors(h api.Head, tasks []api.Task) any {
	out := embeddingsOut{ID: h.ID, Object: "list", Created: h.Received, Model: h.Model(), SystemFingerprint: h.Fingerprint}
	dimensions := cmp.Or(q.Dimensions, defaultDimensions)
	for i, t := range tasks {
		out.Data = append(out.Data, embedding{Index: i, Object: "embedding", Embedding: vector(t.Prompt, dimensions)})
		out.Usage.PromptTokens += len(t.Prompt)
	}
	out.Usage.TotalTokens = out.Usage.PromptTokens
	return out
}

func vector(tokens []core.Token, dimensions int) []float64 {
	var seed uint64
	for _, t := range tokens {
		seed = (seed ^ uint64(t)) * 0x9e3779b97f4a7c15 // Fibonacci hashing
	}
	rng := rand.New(rand.NewPCG(seed, uint64(len(tokens))))
	v := make([]float64, dimensions)
	norm := 0.0
	for i := range v {
		v[i] = rng.NormFloat64()
		norm += v[i] * v[i]
	}
	for i := range v {
		v[i] /= math.Sqrt(norm)
	}
	return v
}
