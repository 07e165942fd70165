package openai

import (
	"github.com/lm-warden/warden/supervisor/simengine/core"
	"github.com/lm-warden/warden/supervisor/simengine/prompt"
	"github.com/lm-warden/warden/supervisor/simengine/server/api"
	"github.com/lm-warden/warden/supervisor/simengine/server/wire"
)

// Tokenize is the body of /tokenize: a text or a chat.
type Tokenize struct {
	Chat
	Prompt          *string `json:"prompt"`
	ReturnTokenStrs bool    `json:"return_token_strs"`
}

type tokenized struct {
	Count       int          `json:"count"`
	MaxModelLen int          `json:"max_model_len"`
	Tokens      []core.Token `json:"tokens"`
	Strings     []string     `json:"token_strs"`
}

// Result implements api.Query.
func (q *Tokenize) Result(s api.Settings) (any, *wire.Error) {
	if err := s.CheckModel(q.Model); err != nil {
		return nil, err
	}
	tokens, err := q.tokens(s.Tokenizer)
	if err != nil {
		return nil, err
	}
	var texts []string
	if q.ReturnTokenStrs {
		texts = make([]string, 0, len(tokens))
		for _, token := range tokens {
			text, _ := s.Tokenizer.Text(token) // its own token
			texts = append(texts, text)
		}
	}
	return tokenized{Count: len(tokens), MaxModelLen: s.MaxModelLen, Tokens: tokens, Strings: texts}, nil
}

func (q *Tokenize) tokens(t prompt.Tokenizer) ([]core.Token, *wire.Error) {
	if q.Prompt != nil {
		return t.Append([]core.Token{}, *q.Prompt), nil
	}
	conversation, err := q.conversation()
	if err != nil {
		return nil, err
	}
	return prompt.Render(t, conversation), nil
}

// Detokenize is the body of /detokenize.
type Detokenize struct {
	Model  string       `json:"model"`
	Tokens []core.Token `json:"tokens"`
}

// Result implements api.Query.
func (q *Detokenize) Result(s api.Settings) (any, *wire.Error) {
	if err := s.CheckModel(q.Model); err != nil {
		return nil, err
	}
	text, err := s.Tokenizer.Decode(q.Tokens)
	if err != nil {
		return nil, wire.BadRequest("tokens", "%v", err)
	}
	return map[string]string{"prompt": text}, nil
}
