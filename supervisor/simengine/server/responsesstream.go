package server

import (
	"errors"

	"github.com/lm-warden/warden/supervisor/simengine/prompt"
)

// event is one event of a response stream; fields that a kind of event does
// not have are left out.
type event struct {
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

// responsesStream is the state of one stream: which output item is open.
type responsesStream struct {
	*responsesReply
	*eventStream
	t         *tracker
	sequence  int
	output    int // index of the open item, or of the next
	open      bool
	kind      prompt.PieceKind
	callIndex int
	item      string // id of the open item
	text      string // of the open item
}

func (a *responsesReply) stream(e *eventStream, g *generation) {
	s := &responsesStream{responsesReply: a, eventStream: e, t: track(g)}
	err := s.begin()
	if err == nil {
		err = s.t.follow(e.request, nil, s.pieces)
	}
	if err == nil {
		err = s.finish()
	}
	var failure *apiError
	if errors.As(err, &failure) {
		e.write("error", encode(failure.openAI()))
	}
}

// begin sends the two events that leave before the first token.
func (s *responsesStream) begin() error {
	initial := s.response()
	for _, kind := range []string{"response.created", "response.in_progress"} {
		if err := s.emit(event{Type: kind, Response: &initial}); err != nil {
			return err
		}
	}
	return nil
}

func (s *responsesStream) emit(ev event) error {
	ev.Sequence = s.sequence
	s.sequence++
	return s.send(ev.Type, encode(ev))
}

// emitItem sends an event about the open item.
func (s *responsesStream) emitItem(ev event) error {
	output := s.output
	ev.Output, ev.ItemID = &output, s.item
	if s.kind == prompt.Content {
		content := 0
		ev.Content = &content
	}
	return s.emit(ev)
}

func (s *responsesStream) pieces(_ update, pieces []prompt.Piece) error {
	for _, piece := range pieces {
		if err := s.piece(piece); err != nil {
			return err
		}
	}
	return nil
}

func (s *responsesStream) piece(p prompt.Piece) error {
	if p.Text == "" {
		return nil
	}
	if p.Kind == prompt.CallStart || (p.Kind == prompt.Content && (!s.open || s.kind != prompt.Content)) {
		if err := s.openItem(p); err != nil || p.Kind == prompt.CallStart {
			return err
		}
	}
	s.text += p.Text
	if p.Kind == prompt.CallArguments {
		return s.emitItem(event{Type: "response.function_call_arguments.delta", Delta: &p.Text})
	}
	return s.emitItem(event{Type: "response.output_text.delta", Delta: &p.Text, Logprobs: &[]string{}})
}

func (s *responsesStream) openItem(p prompt.Piece) error {
	if err := s.closeItem(); err != nil {
		return err
	}
	s.open, s.kind, s.callIndex, s.text = true, p.Kind, p.Call, ""
	output := s.output
	if p.Kind == prompt.CallStart {
		item := s.responsesReply.call(s.t, p.Call, "in_progress", "")
		s.item = item.ID
		return s.emit(event{Type: "response.output_item.added", Output: &output, Item: item})
	}
	item := s.message("in_progress", "")
	s.item = item.ID
	if err := s.emit(event{Type: "response.output_item.added", Output: &output, Item: item}); err != nil {
		return err
	}
	part := newOutputText("")
	part.Logprobs = &[]string{}
	return s.emitItem(event{Type: "response.content_part.added", Part: &part})
}

func (s *responsesStream) closeItem() error {
	if !s.open {
		return nil
	}
	s.open = false
	var item any
	var done []event
	if s.kind == prompt.Content {
		item = s.message("completed", s.text)
		part := newOutputText(s.text)
		done = []event{
			{Type: "response.output_text.done", Text: &s.text, Logprobs: &[]string{}},
			{Type: "response.content_part.done", Part: &part},
		}
	} else {
		call := s.responsesReply.call(s.t, s.callIndex, "completed", s.text)
		item = call
		done = []event{{Type: "response.function_call_arguments.done", Arguments: &s.text, Name: call.Name}}
	}
	for _, ev := range done {
		if err := s.emitItem(ev); err != nil {
			return err
		}
	}
	output := s.output
	s.output++
	return s.emit(event{Type: "response.output_item.done", Output: &output, Item: item})
}

// finish sends the whole response once more. vLLM calls it completed even
// where its status is incomplete.
func (s *responsesStream) finish() error {
	if err := s.closeItem(); err != nil {
		return err
	}
	final := s.completed(s.t)
	return s.emit(event{Type: "response.completed", Response: &final})
}
