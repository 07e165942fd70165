package anthropic

import (
	"encoding/json"

	"github.com/lm-warden/warden/supervisor/simengine/prompt"
	"github.com/lm-warden/warden/supervisor/simengine/server/api"
	"github.com/lm-warden/warden/supervisor/simengine/server/wire"
)

// The events of a message stream, in the order of their fields on the wire.
type (
	messageStart struct {
		Type    string  `json:"type"`
		Message message `json:"message"`
	}
	blockStart struct {
		Type  string  `json:"type"`
		Block content `json:"content_block"`
		Index int     `json:"index"`
	}
	blockDelta struct {
		Type  string       `json:"type"`
		Delta contentDelta `json:"delta"`
		Index int          `json:"index"`
	}
	blockStop struct {
		Type  string `json:"type"`
		Index int    `json:"index"`
	}
	messageDelta struct {
		Type  string    `json:"type"`
		Delta stopDelta `json:"delta"`
		Usage usage     `json:"usage"`
	}
	contentDelta struct {
		Type        string  `json:"type"`
		Text        *string `json:"text,omitempty"`
		PartialJSON *string `json:"partial_json,omitempty"`
	}
	stopDelta struct {
		StopReason   string  `json:"stop_reason"`
		StopSequence *string `json:"stop_sequence"`
	}
)

// stream implements api.Stream and api.PartSender: a content block is a part.
type stream struct {
	*reply
	events *wire.Events
	answer *api.Answer
	parts  api.Parts
}

// Open implements api.Stream.
func (s *stream) Open() error { return nil }

// Begin knows the whole prompt and, as in vLLM, nothing of the cache.
func (s *stream) Begin() error {
	start := s.message()
	start.StopReason, start.StopSequence = wire.IsNull, wire.IsNull
	start.Usage = usage{Input: s.answer.Prompt}
	return s.events.Send("message_start", messageStart{Type: "message_start", Message: start})
}

// Token implements api.Stream.
func (s *stream) Token(_ int, pieces []prompt.Piece) error { return s.parts.Add(s, pieces) }

// StartPart implements api.PartSender.
func (s *stream) StartPart(first prompt.Piece) error {
	empty := ""
	block := content{Type: "text", Text: &empty}
	if first.Kind == prompt.CallStart {
		block = content{Type: "tool_use", ID: s.CallID(0, first.Call), Name: first.Text, Input: json.RawMessage("{}")}
	}
	return s.events.Send("content_block_start", blockStart{Type: "content_block_start", Index: s.parts.Index, Block: block})
}

// PartDelta implements api.PartSender.
func (s *stream) PartDelta(p prompt.Piece) error {
	delta := contentDelta{Type: "text_delta", Text: &p.Text}
	if p.Kind == prompt.CallArguments {
		delta = contentDelta{Type: "input_json_delta", PartialJSON: &p.Text}
	}
	return s.events.Send("content_block_delta", blockDelta{Type: "content_block_delta", Index: s.parts.Index, Delta: delta})
}

// EndPart implements api.PartSender.
func (s *stream) EndPart() error {
	return s.events.Send("content_block_stop", blockStop{Type: "content_block_stop", Index: s.parts.Index})
}

// Finish sends the stop reason and the usage, now with the cache fields.
func (s *stream) Finish() error {
	if err := s.parts.End(s); err != nil {
		return err
	}
	c := &s.answer.Choices[0]
	delta := messageDelta{
		Type: "message_delta", Delta: stopDelta{StopReason: stopReason(c), StopSequence: c.Stop}, Usage: s.usage(s.answer),
	}
	if err := s.events.Send("message_delta", delta); err != nil {
		return err
	}
	return s.events.Send("message_stop", map[string]string{"type": "message_stop"})
}

// Fail sends every error under one name, as vLLM does in streams.
func (s *stream) Fail(err *wire.Error) {
	s.events.Last("error", Failure(&wire.Error{Type: "internal_error", Message: err.Message}))
}
