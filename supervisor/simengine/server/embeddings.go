package server

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/lm-warden/warden/supervisor/simengine/core"
	"github.com/lm-warden/warden/supervisor/simengine/prompt"
)

type embeddingsRequest struct {
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

// embeddings are unit vectors drawn from the tokens: equal inputs give equal
// vectors, and that is all they mean. A prompt costs its prefill.
func (s *Server) embeddings(w http.ResponseWriter, r *http.Request) {
	var q embeddingsRequest
	if err := readBody(w, r, &q); err != nil {
		failOpenAI(w, err)
		return
	}
	prompts, _, apiErr := s.inputs(q.Input, "input")
	if apiErr == nil && (q.Dimensions < 0 || q.Dimensions > maxDimensions) {
		apiErr = badRequest("dimensions", "dimensions must be between 1 and %d.", maxDimensions)
	}
	if apiErr != nil {
		failOpenAI(w, apiErr)
		return
	}
	if q.Dimensions == 0 {
		q.Dimensions = defaultDimensions
	}
	out := embeddingsOut{ID: s.newID("embd-", r), Object: "list", Created: time.Now().Unix(), Model: s.modelName(), SystemFingerprint: s.fingerprint()}
	one := 1
	for i, tokens := range prompts {
		g, err := s.start(r, task{sampling: sampling{Model: q.Model, MaxTokens: &one, IgnoreEOS: true, Priority: q.Priority}, prompt: tokens})
		if err != nil {
			failStart(w, err, failOpenAI)
			return
		}
		_, err = s.collect(r, g)
		g.close()
		if err != nil {
			failStart(w, err, failOpenAI)
			return
		}
		out.Data = append(out.Data, embedding{Index: i, Object: "embedding", Embedding: vector(tokens, q.Dimensions)})
		out.Usage.PromptTokens += len(tokens)
	}
	out.Usage.TotalTokens = out.Usage.PromptTokens
	writeJSON(w, http.StatusOK, out)
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

type tokenizeRequest struct {
	chatRequest
	Prompt          *string `json:"prompt"`
	ReturnTokenStrs bool    `json:"return_token_strs"`
}

// tokenize takes a text or a chat.
func (s *Server) tokenize(w http.ResponseWriter, r *http.Request) {
	var q tokenizeRequest
	if err := readBody(w, r, &q); err != nil {
		failOpenAI(w, err)
		return
	}
	var tokens []core.Token
	err := s.checkModel(q.Model)
	switch {
	case err != nil:
	case q.Prompt != nil:
		tokens = s.opts.Tokenizer.Append([]core.Token{}, *q.Prompt)
	default:
		var conversation prompt.Conversation
		if conversation, err = q.conversation(); err == nil {
			tokens = prompt.Render(s.opts.Tokenizer, conversation)
		}
	}
	if err != nil {
		failOpenAI(w, err)
		return
	}
	var texts []string
	if q.ReturnTokenStrs {
		texts = make([]string, 0, len(tokens))
		for _, token := range tokens {
			text, _ := s.opts.Tokenizer.Text(token) // its own token
			texts = append(texts, text)
		}
	}
	writeJSON(w, http.StatusOK, struct {
		Count       int          `json:"count"`
		MaxModelLen int          `json:"max_model_len"`
		Tokens      []core.Token `json:"tokens"`
		Strings     []string     `json:"token_strs"`
	}{len(tokens), s.Config().MaxModelLen, tokens, texts})
}

func (s *Server) detokenize(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Model  string       `json:"model"`
		Tokens []core.Token `json:"tokens"`
	}
	if err := readBody(w, r, &q); err != nil {
		failOpenAI(w, err)
		return
	}
	if err := s.checkModel(q.Model); err != nil {
		failOpenAI(w, err)
		return
	}
	text, err := s.opts.Tokenizer.Decode(q.Tokens)
	if err != nil {
		failOpenAI(w, badRequest("tokens", "%v", err))
		return
	}
	writeJSON(w, http.StatusOK, map[string]string{"prompt": text})
}
