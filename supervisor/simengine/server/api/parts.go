package api

import "github.com/lm-warden/warden/supervisor/simengine/prompt"

// PartSender sends the parts of an answer, which are texts and tool calls.
type PartSender interface {
	// StartPart begins a part, of which first is the first piece.
	StartPart(first prompt.Piece) error
	// PartDelta adds to the part that has begun.
	PartDelta(prompt.Piece) error
	// EndPart ends it.
	EndPart() error
}

// Parts cuts a streamed answer into its parts, one after the other.
type Parts struct {
	Index int              // of the part that has begun, or of the next
	Kind  prompt.PieceKind // of its first piece
	open  bool
}

// Add sends some pieces, and where a part begins or ends with them, that.
func (p *Parts) Add(to PartSender, pieces []prompt.Piece) error {
	for _, piece := range pieces {
		if piece.Text == "" {
			continue // a stop string has eaten it
		}
		if err := p.add(to, piece); err != nil {
			return err
		}
	}
	return nil
}

func (p *Parts) add(to PartSender, piece prompt.Piece) error {
	if piece.Kind == prompt.CallStart || (piece.Kind == prompt.Content && (!p.open || p.Kind != prompt.Content)) {
		if err := p.End(to); err != nil {
			return err
		}
		p.open, p.Kind = true, piece.Kind
		if err := to.StartPart(piece); err != nil || piece.Kind == prompt.CallStart {
			return err // a call's first piece is its name, which is no delta
		}
	}
	return to.PartDelta(piece)
}

// End ends the part that has begun, if any.
func (p *Parts) End(to PartSender) error {
	if !p.open {
		return nil
	}
	p.open = false
	err := to.EndPart()
	p.Index++
	return err
}
