package scan

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// edits are the places in a body where the router may have to write. Offsets
// point to the occurrence that counts, so that an edit holds even for a body
// that gives a member twice.
type edits struct {
	open          int  // the brace that opens the whole object
	model         span // value
	streamOptions span // value
	includeUsage  span // value, within streamOptions
	systemTurns   []systemTurn
}

type systemTurn struct {
	role        span // value
	open, close int  // inside of its first and last text, after and before the quotes
}

// A splice replaces the bytes at one span.
type splice struct {
	at   span
	text string
}

// apply returns src with the splices, which must be in order and must not
// overlap, as the pieces that make it up. Every other byte stays where it is.
func apply(src []byte, splices []splice) (parts [][]byte) {
	from := 0
	add := func(part []byte) {
		if len(part) > 0 {
			parts = append(parts, part)
		}
	}
	for _, s := range splices {
		add(src[from:s.at.start])
		add([]byte(s.text))
		from = s.at.end
	}
	add(src[from:])
	return parts
}

// Edit says what to change in a body before it goes to an engine.
type Edit struct {
	// Model is the new model name; "" keeps the old one.
	Model string
	// IncludeUsage asks for the usage chunk at the end of a stream.
	IncludeUsage bool
	// FoldSystemTurns rewrites each system message after the first turn to a
	// user message that holds the text in a reminder tag. Engines that hoist
	// such messages into the leading system text read the whole history anew
	// each time one arrives (Claude Code sends them since 2.1.154). The rewrite
	// of a message does not depend on its neighbours, so histories stay
	// append-only.
	FoldSystemTurns bool
}

// Claude Code's own way of putting system text into a user turn; it does the
// same when an endpoint refuses system turns.
const (
	reminderOpen  = `<system-reminder>\n`
	reminderClose = `\n</system-reminder>`
)

// Edited returns src, the body that b was scanned from, with the changes, as
// pieces to send one after the other: large bodies are not copied for a word
// in them. It is src itself when there is nothing to change or b is not Valid.
func (b *Body) Edited(src []byte, want Edit) [][]byte {
	if !b.Valid {
		return [][]byte{src}
	}
	var splices []splice
	var members []string // new ones of the whole object
	if want.Model != "" && want.Model != b.Model {
		name := quote(want.Model)
		if b.edits.model.empty() {
			members = append(members, `"model":`+name)
		} else {
			splices = append(splices, splice{b.edits.model, name})
		}
	}
	if want.IncludeUsage && !b.IncludeUsage {
		if b.edits.streamOptions.empty() {
			members = append(members, `"stream_options":{"include_usage":true}`)
		} else {
			splices = append(splices, b.edits.usage(src))
		}
	}
	if want.FoldSystemTurns {
		splices = append(splices, b.edits.fold()...)
	}
	if len(members) > 0 {
		splices = append(splices, insert(src, b.edits.open, strings.Join(members, ",")))
	}
	slices.SortFunc(splices, func(x, y splice) int { return x.at.start - y.at.start })
	return apply(src, splices)
}

// usage turns include_usage on in the stream_options that are there.
func (e *edits) usage(src []byte) splice {
	switch {
	case !e.includeUsage.empty():
		return splice{e.includeUsage, "true"}
	case src[e.streamOptions.start] == '{':
		return insert(src, e.streamOptions.start, `"include_usage":true`)
	}
	return splice{e.streamOptions, `{"include_usage":true}`}
}

func (e *edits) fold() (out []splice) {
	for _, t := range e.systemTurns {
		out = append(out,
			splice{t.role, `"user"`},
			splice{span{t.open, t.open}, reminderOpen},
			splice{span{t.close, t.close}, reminderClose})
	}
	return out
}

// insert returns the splice that adds members in front of those of the object
// whose opening brace is at open.
func insert(src []byte, open int, members string) splice {
	c := cursor{src: src, pos: open + 1}
	if c.next() != '}' {
		members += ","
	}
	return splice{span{open + 1, open + 1}, members}
}

func quote(s string) string {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		return `""` // unreachable: strings always encode
	}
	return strings.TrimSuffix(out.String(), "\n")
}
