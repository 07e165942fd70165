package dialect

import (
	"bytes"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

// An event larger than this is passed on unread. The largest real ones are the
// last event of /v1/responses, which repeats the whole answer, and chunks with
// logprobs; the usage chunk that may have to be held back is under 4 KiB.
const (
	maxEvent     = 1 << 20
	maxHeldEvent = 64 << 10
)

// Stream reads an event stream in pieces as they arrive, at whatever byte they
// are cut, and says what may go to the client.
//
// It normally passes every piece on untouched. With Edits it passes on whole
// events, and all but those that are named there untouched.
//
// Lines may end in \n or \r\n, as all engines write them; a lone \r is part of
// its line.
type Stream struct {
	Summary
	api   API
	edits Edits

	partial   []byte // the bytes so far of an event that has not ended
	oversize  bool   // that event is too large to keep: pass on, do not read
	inLine    bool   // the current line has bytes other than a closing \r
	cr        bool   // the current line is just "\r" so far
	withheld  []byte // HideUsage: the finishing chunk, until the usage chunk is seen
	out       []byte
	delivered bool // something of the unfinished event has been passed on
}

// Edits are what is changed in a stream.
type Edits struct {
	// HideUsage takes the usage chunk out of a stream of OpenAI's: warden itself
	// asked for it (stream_options.include_usage), and the client shall see the
	// stream that it would have seen without us.
	HideUsage bool
	// MendUsage is the function of that name, for a stream of Anthropic's.
	MendUsage bool
}

func (e Edits) any() bool { return e != Edits{} }

// NewStream reads a stream of api.
func NewStream(api API, edits Edits) *Stream {
	return &Stream{Summary: Summary{Usage: unmeasured}, api: api, edits: edits}
}

// Feed takes the next piece and returns the bytes to pass on, valid until the
// next call (it may be piece itself). progress is whether the piece held data:
// comments that keep a connection open are none.
func (s *Stream) Feed(piece []byte) (out []byte, progress bool) {
	s.out = s.out[:0]
	for rest := piece; len(rest) > 0; {
		end := s.eventEnd(rest)
		if end < 0 {
			s.keep(rest)
			progress = progress || s.oversize
			break
		}
		progress = s.event(rest[:end]) || progress
		rest = rest[end:]
	}
	if s.edits.any() {
		return s.out, progress
	}
	return piece, progress
}

// Close returns what was withheld, for a stream that ended by itself.
func (s *Stream) Close() []byte {
	s.out = append(append(s.out[:0], s.withheld...), s.partial...)
	s.withheld, s.partial = nil, nil
	if s.edits.any() {
		return s.out
	}
	return nil
}

// MidEvent reports whether the client has got part of an event only, so that
// nothing that it could read may be appended.
func (s *Stream) MidEvent() bool { return s.delivered }

// eventEnd returns the index just behind the blank line that ends the current
// event, or -1 when piece ends before.
func (s *Stream) eventEnd(piece []byte) int {
	for i := 0; ; {
		n := bytes.IndexByte(piece[i:], '\n')
		if n < 0 {
			s.continueLine(piece[i:])
			return -1
		}
		s.continueLine(piece[i : i+n])
		blank := !s.inLine
		s.inLine, s.cr = false, false
		i += n + 1
		if blank {
			return i
		}
	}
}

// continueLine notes whether the line is still blank; a \r counts as part of
// the line end only when nothing but \n follows it.
func (s *Stream) continueLine(part []byte) {
	if s.inLine || len(part) == 0 {
		return
	}
	if !s.cr && len(part) == 1 && part[0] == '\r' {
		s.cr = true
		return
	}
	s.inLine = true
}

// keep stores the beginning of an event whose end has not come yet.
func (s *Stream) keep(part []byte) {
	if !s.oversize && len(s.partial)+len(part) <= s.limit() {
		s.partial = append(s.partial, part...)
		s.delivered = !s.edits.any()
		return
	}
	s.release(part)
	s.oversize = true
}

// release passes an oversized event on, as far as it has come.
func (s *Stream) release(part []byte) {
	if s.edits.any() {
		s.flushWithheld()
		s.out = append(append(s.out, s.partial...), part...)
	}
	s.partial = s.partial[:0]
	s.delivered = true
}

func (s *Stream) limit() int {
	if s.edits.any() {
		return maxHeldEvent
	}
	return maxEvent
}

// event handles a whole event whose last part is tail.
func (s *Stream) event(tail []byte) (progress bool) {
	if s.oversize || len(s.partial)+len(tail) > s.limit() {
		s.release(tail)
		s.oversize, s.delivered = false, false
		return true
	}
	event := tail
	if len(s.partial) > 0 {
		s.partial = append(s.partial, tail...)
		event = s.partial
	}
	data := eventData(event)
	var has words
	if data != nil {
		has = s.observe(s.api, data)
	}
	switch {
	case s.edits.HideUsage:
		s.pass(event, data, has)
	case s.edits.MendUsage:
		s.out = append(s.out, mendEvent(event, data)...)
	}
	s.partial, s.delivered = s.partial[:0], false
	return data != nil
}

// pass appends event to the output unless it is the usage chunk. vLLM moves
// system_fingerprint from the finishing chunk to the usage chunk when there is
// one; the finishing chunk therefore waits for its successor, which the engine
// writes in the same breath, and gets it back.
func (s *Stream) pass(event, data []byte, has words) {
	if has.usage && isUsageChunk(data) {
		s.restoreFingerprint(data)
		s.flushWithheld()
		return
	}
	s.flushWithheld()
	if has.reasons > has.nulls && gjson.GetBytes(data, "choices.0.finish_reason").Type == gjson.String {
		s.withheld = append(s.withheld, event...)
		return
	}
	s.out = append(s.out, event...)
}

func (s *Stream) flushWithheld() {
	s.out = append(s.out, s.withheld...)
	s.withheld = s.withheld[:0]
}

func (s *Stream) restoreFingerprint(usageChunk []byte) {
	fingerprint := gjson.GetBytes(usageChunk, "system_fingerprint")
	finishing := eventData(s.withheld)
	if fingerprint.Type != gjson.String || finishing == nil ||
		gjson.GetBytes(finishing, "system_fingerprint").Exists() {
		return
	}
	at := bytes.Index(s.withheld, finishing)
	changed, err := sjson.SetRawBytes(bytes.Clone(finishing), "system_fingerprint", []byte(fingerprint.Raw))
	if at < 0 || err != nil {
		return // an event in several data lines: leave it as the engine wrote it
	}
	rest := bytes.Clone(s.withheld[at+len(finishing):])
	s.withheld = append(append(s.withheld[:at], changed...), rest...)
}

// isUsageChunk: the one chunk without choices that carries usage.
func isUsageChunk(data []byte) bool {
	choices := gjson.GetBytes(data, "choices")
	return choices.IsArray() && len(choices.Array()) == 0 && gjson.GetBytes(data, "usage").IsObject()
}

// eventData returns the data of an event, nil when it has none (a comment).
// Several data lines are joined with a line feed, as the specification says.
func eventData(event []byte) []byte {
	var data []byte
	found := false
	for len(event) > 0 {
		line := event
		if n := bytes.IndexByte(event, '\n'); n >= 0 {
			line, event = event[:n], event[n+1:]
		} else {
			event = nil
		}
		value, ok := bytes.CutPrefix(bytes.TrimSuffix(line, []byte("\r")), []byte("data"))
		if !ok || len(value) > 0 && value[0] != ':' {
			continue
		}
		value = bytes.TrimPrefix(bytes.TrimPrefix(value, []byte(":")), []byte(" "))
		if !found {
			data, found = value[:len(value):len(value)], true
			continue
		}
		data = append(append(data, '\n'), value...)
	}
	if found && data == nil {
		data = []byte{}
	}
	return data
}
