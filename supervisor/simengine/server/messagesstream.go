package server

import (
	"encoding/json"
	"errors"

	"github.com/lm-warden/warden/supervisor/simengine/prompt"
)

// The events of a message stream, in the order of their fields on the wire.
type (
	messageStart struct {
		Type    string           `json:"type"`
		Message anthropicMessage `json:"message"`
	}
	blockStart struct {
		Type  string           `json:"type"`
		Block anthropicContent `json:"content_block"`
		Index int              `json:"index"`
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
		Type  string         `json:"type"`
		Delta stopDelta      `json:"delta"`
		Usage anthropicUsage `json:"usage"`
	}
	contentDelta struct {
		Type        string  `json:"type"`
		Text        *string `json:"text,omitempty"`
		PartialJSON *string `json:"partial_json,omitempty"`
	}
	stopDelta struct {
		StopReason   *string `json:"stop_reason"`
		StopSequence *string `json:"stop_sequence"`
	}
)

// messagesStream is the state of one stream: which block is open.
type messagesStream struct {
	*messagesReply
	*eventStream
	block int // index of the open block, or of the next
	kind  prompt.PieceKind
	open  bool
}

func (m *messagesReply) stream(e *eventStream, g *generation) {
	t := track(g)
	s := &messagesStream{messagesReply: m, eventStream: e}
	err := t.follow(e.request, func() error { return s.start(t) }, s.pieces)
	if err == nil {
		err = s.finish(t)
	}
	var failure *apiError
	if errors.As(err, &failure) {
		e.write("error", encode((&apiError{Type: "internal_error", Message: failure.Message}).anthropic()))
	}
}

// start knows the whole prompt and, as in vLLM, nothing of the cache.
func (s *messagesStream) start(t *tracker) error {
	start := s.message()
	start.StopReason, start.StopSequence = isNull, isNull
	start.Usage = anthropicUsage{Input: t.generation.prompt}
	return s.send("message_start", encode(messageStart{Type: "message_start", Message: start}))
}

func (s *messagesStream) pieces(_ update, pieces []prompt.Piece) error {
	for _, piece := range pieces {
		if err := s.piece(piece); err != nil {
			return err
		}
	}
	return nil
}

// piece sends a delta and, where a new block begins, what stands before it.
func (s *messagesStream) piece(p prompt.Piece) error {
	if p.Text == "" {
		return nil
	}
	if p.Kind == prompt.CallStart || (p.Kind == prompt.Content && (!s.open || s.kind != prompt.Content)) {
		if err := s.begin(p); err != nil || p.Kind == prompt.CallStart {
			return err
		}
	}
	delta := contentDelta{Type: "text_delta", Text: &p.Text}
	if p.Kind == prompt.CallArguments {
		delta = contentDelta{Type: "input_json_delta", PartialJSON: &p.Text}
	}
	return s.send("content_block_delta", encode(blockDelta{Type: "content_block_delta", Index: s.block, Delta: delta}))
}

func (s *messagesStream) begin(p prompt.Piece) error {
	if err := s.end(); err != nil {
		return err
	}
	s.open, s.kind = true, p.Kind
	empty := ""
	block := anthropicContent{Type: "text", Text: &empty}
	if p.Kind == prompt.CallStart {
		block = anthropicContent{Type: "tool_use", ID: s.server.callID(s.id, 0, p.Call), Name: p.Text, Input: json.RawMessage("{}")}
	}
	return s.send("content_block_start", encode(blockStart{Type: "content_block_start", Index: s.block, Block: block}))
}

func (s *messagesStream) end() error {
	if !s.open {
		return nil
	}
	s.open = false
	err := s.send("content_block_stop", encode(blockStop{Type: "content_block_stop", Index: s.block}))
	s.block++
	return err
}

// finish sends the stop reason and the usage, now with the cache fields.
func (s *messagesStream) finish(t *tracker) error {
	if err := s.end(); err != nil {
		return err
	}
	reason, sequence := t.choices[0].stopReason()
	delta := messageDelta{Type: "message_delta", Delta: stopDelta{StopReason: reason, StopSequence: sequence}, Usage: s.usage(t)}
	if err := s.send("message_delta", encode(delta)); err != nil {
		return err
	}
	return s.send("message_stop", encode(map[string]string{"type": "message_stop"}))
}
