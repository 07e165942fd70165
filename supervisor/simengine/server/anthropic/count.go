package anthropic

import (
	"github.com/lm-warden/warden/supervisor/simengine/prompt"
	"github.com/lm-warden/warden/supervisor/simengine/server/api"
	"github.com/lm-warden/warden/supervisor/simengine/server/wire"
)

// Count is the body of /v1/messages/count_tokens.
type Count struct{ body }

// Validate finds what vLLM's framework finds; max_tokens is not needed.
func (q *Count) Validate() *wire.Error { return q.lacking(false) }

type counted struct {
	Input   int        `json:"input_tokens"`
	Context management `json:"context_management"`
}

type management struct {
	Original int `json:"original_input_tokens"`
}

// Result implements api.Query.
func (q *Count) Result(s api.Settings) (any, *wire.Error) {
	conversation, err := q.conversation(s)
	if err == nil {
		err = s.CheckModel(q.Model)
	}
	if err != nil {
		return nil, err
	}
	n := len(prompt.Render(s.Tokenizer, conversation))
	return counted{n, management{n}}, nil
}
