package openai

import (
	"github.com/lm-warden/warden/supervisor/simengine/prompt"
	"github.com/lm-warden/warden/supervisor/simengine/server/api"
	"github.com/lm-warden/warden/supervisor/simengine/server/wire"
)

// responseEvent is one event of a response stream; fields that a kind of event does
// not have are left out.
type responseEvent struct {
	Arguments *string      `json:"arguments,omitempty"`
	Content   *int         `json:"content_index,omitempty"`
	Delta     *string      `json:"delta,omitempty"`
	Item      any          `json:"item,omitempty"`
	ItemID    string       `json:"item_id,omitempty"`
	Logprobs  *[]string    `json:"logprobs,omitempty"`
	Name      string       `json:"name,omitempty"`
	Output    *int         `json:"output_index,omitempty"`
	Part      *outputText  `json:"part,omitempty"`
	Response  *responseOut `json:"response,omitempty"`
	Sequence  int          `json:"sequence_number"`
	Text      *string      `json:"text,omitempty"`
	Type      string       `json:"type"`
}

// responsesStream implements api.Stream and api.PartSender: an output item is a
// part.
type responsesStream struct {
	*responsesReply
	events   *wire.Events
	answer   *api.Answer
	parts    api.Parts
	sequence int
	// The open item.
	id     string
	number int    // of its tool call
	text   string // or arguments, so far
}

// Open sends the two events that leave before the first token.
func (s *responsesStream) Open() error {
	initial := s.response(s.answer.Limit)
	for _, kind := range []string{"response.created", "response.in_progress"} {
		if err := s.emit(responseEvent{Type: kind, Response: &initial}); err != nil {
			return err
		}
	}
	return nil
}

// Begin implements api.Stream.
func (s *responsesStream) Begin() error { return nil }

// Token implements api.Stream.
func (s *responsesStream) Token(_ int, pieces []prompt.Piece) error { return s.parts.Add(s, pieces) }

func (s *responsesStream) emit(ev responseEvent) error {
	ev.Sequence = s.sequence
	s.sequence++
	return s.events.Send(ev.Type, ev)
}

// emitItem sends an event about the open item.
func (s *responsesStream) emitItem(ev responseEvent) error {
	output := s.parts.Index
	ev.Output, ev.ItemID = &output, s.id
	if s.parts.Kind == prompt.Content {
		content := 0
		ev.Content = &content
	}
	return s.emit(ev)
}

// StartPart implements api.PartSender.
func (s *responsesStream) StartPart(first prompt.Piece) error {
	s.number, s.text = first.Call, ""
	output := s.parts.Index
	if first.Kind == prompt.CallStart {
		item := s.call(&s.answer.Choices[0], first.Call, "in_progress", "")
		s.id = item.ID
		return s.emit(responseEvent{Type: "response.output_item.added", Output: &output, Item: item})
	}
	item := s.message("in_progress", "")
	s.id = item.ID
	if err := s.emit(responseEvent{Type: "response.output_item.added", Output: &output, Item: item}); err != nil {
		return err
	}
	part := newOutputText("")
	part.Logprobs = &[]string{}
	return s.emitItem(responseEvent{Type: "response.content_part.added", Part: &part})
}

// PartDelta implements api.PartSender.
func (s *responsesStream) PartDelta(p prompt.Piece) error {
	s.text += p.Text
	if p.Kind == prompt.CallArguments {
		return s.emitItem(responseEvent{Type: "response.function_call_arguments.delta", Delta: &p.Text})
	}
	return s.emitItem(responseEvent{Type: "response.output_text.delta", Delta: &p.Text, Logprobs: &[]string{}})
}

// EndPart implements api.PartSender.
func (s *responsesStream) EndPart() error {
	var item any
	var done []responseEvent
	if s.parts.Kind == prompt.Content {
		item = s.message("completed", s.text)
		part := newOutputText(s.text)
		done = []responseEvent{
			{Type: "response.output_text.done", Text: &s.text, Logprobs: &[]string{}},
			{Type: "response.content_part.done", Part: &part},
		}
	} else {
		call := s.call(&s.answer.Choices[0], s.number, "completed", s.text)
		item = call
		done = []responseEvent{{Type: "response.function_call_arguments.done", Arguments: &s.text, Name: call.Name}}
	}
	for _, ev := range done {
		if err := s.emitItem(ev); err != nil {
			return err
		}
	}
	output := s.parts.Index
	return s.emit(responseEvent{Type: "response.output_item.done", Output: &output, Item: item})
}

// Finish sends the whole response once more. vLLM calls it completed even
// where its status is incomplete.
func (s *responsesStream) Finish() error {
	if err := s.parts.End(s); err != nil {
		return err
	}
	final := s.completed(s.answer)
	return s.emit(responseEvent{Type: "response.completed", Response: &final})
}

// Fail implements api.Stream.
func (s *responsesStream) Fail(err *wire.Error) { s.events.Last("error", wire.OpenAI(err)) }
