package openai

import (
	"github.com/lm-warden/warden/supervisor/simengine/prompt"
	"github.com/lm-warden/warden/supervisor/simengine/server/api"
	"github.com/lm-warden/warden/supervisor/simengine/server/wire"
)

// chunk is one event of a stream; C is its choice. The Null fields tell what
// vLLM sets to nothing from what it leaves out.
type chunk[C any] struct {
	ID                string       `json:"id"`
	Object            string       `json:"object"`
	Created           int64        `json:"created"`
	Model             string       `json:"model"`
	Choices           []C          `json:"choices"`
	Usage             *streamUsage `json:"usage,omitempty"`
	SystemFingerprint *string      `json:"system_fingerprint,omitempty"`
	PromptTokenIDs    wire.Null    `json:"prompt_token_ids,omitempty"`
	PromptText        wire.Null    `json:"prompt_text,omitempty"`
}

// stream implements api.Stream for chats and completions, which differ only in
// their choices.
type stream[C any] struct {
	*reply
	events *wire.Events
	answer *api.Answer
	object string
	// opening is what a choice begins with, before its first token; nil where
	// choices begin with the token.
	opening func(choice int) C
	// token is what a choice shows with one token.
	token func(index int, c *api.Choice, pieces []prompt.Piece) C
	// usageNulls says whether a running usage has its empty fields.
	usageNulls wire.Null
}

func (s *stream[C]) chunk(choices ...C) chunk[C] {
	if choices == nil {
		choices = []C{}
	}
	return chunk[C]{ID: s.ID, Object: s.object, Created: s.created, Model: s.Model(), Choices: choices}
}

// running is the usage so far, for those who want it with every event.
func (s *stream[C]) running(generated int) *streamUsage {
	if !s.continuous {
		return nil
	}
	u := usage(s.answer.Prompt, generated).stream()
	u.OutputDetails = s.usageNulls
	return u
}

// Open implements api.Stream.
func (s *stream[C]) Open() error { return nil }

// Begin opens each choice.
func (s *stream[C]) Begin() error {
	if s.opening == nil {
		return nil
	}
	for i := range s.answer.Choices {
		ev := s.chunk(s.opening(i))
		ev.PromptTokenIDs, ev.PromptText = wire.IsNull, wire.IsNull
		ev.Usage = s.running(0)
		if err := s.events.Send("", ev); err != nil {
			return err
		}
	}
	return nil
}

// Token sends what becomes visible with one token. A token that shows nothing
// is not sent, unless it ends the answer.
func (s *stream[C]) Token(index int, pieces []prompt.Piece) error {
	c := &s.answer.Choices[index]
	if len(pieces) == 0 && c.Reason == "" {
		return nil
	}
	ev := s.chunk(s.token(index, c, pieces))
	if c.Reason != "" && !s.usage {
		ev.SystemFingerprint = s.Fingerprint
	}
	ev.Usage = s.running(c.Tokens)
	return s.events.Send("", ev)
}

// Finish sends the usage to those who asked for it.
func (s *stream[C]) Finish() error {
	if s.usage {
		ev := s.chunk()
		total := usage(s.answer.Prompt, s.answer.Tokens())
		total.Details = s.details(s.answer.Prefill())
		ev.Usage = total.stream()
		ev.SystemFingerprint = s.Fingerprint
		if err := s.events.Send("", ev); err != nil {
			return err
		}
	}
	s.events.Done()
	return nil
}

// Fail sends the error, and then the same end as after a complete answer.
func (s *stream[C]) Fail(err *wire.Error) {
	s.events.Last("", wire.OpenAI(err))
	s.events.Done()
}
