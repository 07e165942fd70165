package dialect

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/tidwall/gjson"
)

// MendUsage changes the usage of a whole answer of /v1/messages, or of the data
// of a stream's message_delta, where it says that no prompt token was outside
// the cache: one token moves from the cache's to the others. The sum and all
// other bytes stay.
//
// vLLM counts the blocks that a prompt read from the cache and those that it
// wrote, and calls the rest input_tokens: 0 for every prompt that ends with a
// block. Claude Code takes 0 for "not stated" (measured with 2.1.332), keeps the
// count that message_start gave for the whole prompt, adds the cached tokens to
// it, and so compacts a context that is half as long as it believes.
func MendUsage(answer []byte) (mended []byte, changed bool) {
	input := gjson.GetBytes(answer, "usage.input_tokens")
	if input.Raw != "0" {
		return answer, false
	}
	// What was written first: the prompt's end is there, not in what was read.
	for _, from := range []string{"usage.cache_creation_input_tokens", "usage.cache_read_input_tokens"} {
		cached := gjson.GetBytes(answer, from)
		if n, err := strconv.Atoi(cached.Raw); err == nil && n > 0 {
			return splice(answer, input, "1", cached, strconv.Itoa(n-1))
		}
	}
	return answer, false
}

// splice writes other values in the place of two.
func splice(doc []byte, a gjson.Result, forA string, b gjson.Result, forB string) (out []byte, ok bool) {
	if a.Index > b.Index {
		a, forA, b, forB = b, forB, a, forA
	}
	if a.Index == 0 || a.Index == b.Index {
		return doc, false
	}
	return slices.Concat(doc[:a.Index], []byte(forA), doc[a.Index+len(a.Raw):b.Index], []byte(forB), doc[b.Index+len(b.Raw):]), true
}

// mendEvent is MendUsage for one event of a stream with this data.
func mendEvent(event, data []byte) []byte {
	if !bytes.Contains(data, []byte(`"message_delta"`)) || gjson.GetBytes(data, "type").Str != "message_delta" {
		return event
	}
	mended, changed := MendUsage(data)
	at := bytes.Index(event, data)
	if !changed || at < 0 { // data in several lines stays as the engine wrote it
		return event
	}
	return slices.Concat(event[:at], mended, event[at+len(data):])
}
