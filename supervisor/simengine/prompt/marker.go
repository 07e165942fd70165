package prompt

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// Script is what the markers in a user message ask for. Markers are
//
//	[[sim:words 40]]        an answer of 40 words
//	[[sim:tokens 200]]      an answer of 200 tokens, then the end
//	[[sim:say TEXT]]        this text after the word SIMULATED
//	[[sim:delay 2s]]        wait before the request reaches the scheduler
//	[[sim:error 503]]       this HTTP status, in the API's error shape
//	[[sim:stream-error 3]]  after 3 events of a stream, an error event
//	[[sim:truncate 3]]      after 3 events, a proper end of the HTTP body without the API's end
//	[[sim:close 3]]         after 3 events, the connection is closed (FIN)
//	[[sim:reset 3]]         after 3 events, the connection is reset (RST)
//	[[tool:NAME {json}]]    call this tool, if the request offers any
//
// Tool markers are rounds: the first is played at once, the second after the
// result of the first came back, and so on; then text follows. Markers joined
// by + are one round of parallel calls. A marker inside a tool's JSON belongs
// to whoever gets that JSON, and unknown markers are plain text.
type Script struct {
	Words, Tokens int
	Say           string
	Delay         time.Duration
	Error         int
	Cut           Cut
	Rounds        [][]Call
}

// Cut breaks an answer off after some events.
type Cut struct {
	Kind  CutKind
	After int // events
}

// CutKind is how an answer is broken off.
type CutKind string

// The ways to break an answer off.
const (
	NoCut       CutKind = ""
	StreamError CutKind = "stream-error"
	Truncate    CutKind = "truncate"
	Close       CutKind = "close"
	Reset       CutKind = "reset"
)

const (
	simMarker  = "[[sim:"
	toolMarker = "[[tool:"
	markerEnd  = "]]"
)

// ParseScript reads the markers of a text and reports whether it has any.
func ParseScript(text string) (s Script, found bool) {
	parallel := false // the text so far ends with a tool marker
	for {
		at := strings.Index(text, "[[")
		if at < 0 {
			return s, found
		}
		joined := parallel && text[:at] == "+"
		text, parallel = text[at:], false
		if call, n, ok := parseTool(text); ok {
			if joined {
				last := len(s.Rounds) - 1
				s.Rounds[last] = append(s.Rounds[last], call)
			} else {
				s.Rounds = append(s.Rounds, []Call{call})
			}
			text, parallel, found = text[n:], true, true
			continue
		}
		if marker, ok := strings.CutPrefix(text, simMarker); ok {
			if body, after, ok := strings.Cut(marker, markerEnd); ok && s.set(body) {
				text, found = after, true
				continue
			}
		}
		text = text[len("["):]
	}
}

// set applies one sim marker and reports whether it is one.
func (s *Script) set(body string) bool {
	key, value, _ := strings.Cut(body, " ")
	number, err := strconv.Atoi(value)
	count := err == nil && number >= 0
	switch {
	case key == "words" && count:
		s.Words = number
	case key == "tokens" && count:
		s.Tokens = number
	case key == "say":
		s.Say = value
	case key == "error" && count && number >= 400 && number < 600:
		s.Error = number
	case key == "delay":
		d, err := time.ParseDuration(value)
		if err != nil || d < 0 {
			return false
		}
		s.Delay = d
	default:
		kind := CutKind(key)
		if !count || (kind != StreamError && kind != Truncate && kind != Close && kind != Reset) {
			return false
		}
		s.Cut = Cut{Kind: kind, After: number}
	}
	return true
}

// parseTool reads a tool marker at the start of text and returns its length.
func parseTool(text string) (Call, int, bool) {
	body, ok := strings.CutPrefix(text, toolMarker)
	if !ok {
		return Call{}, 0, false
	}
	name, arguments, ok := strings.Cut(body, " ")
	if !ok || name == "" || strings.ContainsAny(name, "[]{}\"\n") {
		return Call{}, 0, false
	}
	decoder := json.NewDecoder(strings.NewReader(arguments))
	var raw json.RawMessage
	if err := decoder.Decode(&raw); err != nil || len(raw) == 0 || raw[0] != '{' {
		return Call{}, 0, false
	}
	end := int(decoder.InputOffset())
	if !strings.HasPrefix(arguments[end:], markerEnd) {
		return Call{}, 0, false
	}
	length := len(text) - len(arguments) + end + len(markerEnd)
	return Call{Name: name, Arguments: Canonical(raw)}, length, true
}

// Script returns the directives for the answer to a conversation, and of their
// tool rounds the one that is due. They come from the last user message with
// markers; one without markers ends them, unless it comes in the middle of a
// tool loop, where agents add reminders of their own.
func (c Conversation) Script() (s Script, due []Call) {
	rounds, over := 0, true
	for _, m := range c.Messages {
		switch {
		case m.Role == "user":
			if next, found := ParseScript(m.Text); found || over {
				s, rounds, over = next, 0, false
			}
		case m.Role == "assistant" && len(m.Calls) > 0:
			rounds++
		case m.Role == "assistant":
			over = true
		}
	}
	if !over && len(c.Tools) > 0 && rounds < len(s.Rounds) {
		due = s.Rounds[rounds]
	}
	return s, due
}
