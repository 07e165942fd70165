package dialect

import (
	"bytes"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

// AskForUsage returns body with stream_options.include_usage set, so that the
// engine states the tokens at the end of the stream; every other byte stays.
// body is not changed. ok is false, and the answer stays unmeasured, when
// stream_options is not an object or asks for usage on every chunk, which
// include_usage would switch on for the client too.
func AskForUsage(body []byte) (changed []byte, ok bool) {
	options := gjson.GetBytes(body, "stream_options")
	if !options.Exists() {
		return insertFirst(body, `"stream_options":{"include_usage":true}`)
	}
	if options.Type == gjson.Null {
		return set1(body, "stream_options", `{"include_usage":true}`)
	}
	if !options.IsObject() || options.Get("continuous_usage_stats").Bool() {
		return nil, false
	}
	return set1(body, "stream_options.include_usage", "true")
}

// SetModel returns body with another model name; every other byte stays.
func SetModel(body []byte, name string) (changed []byte, ok bool) {
	changed, err := sjson.SetBytes(body, "model", name)
	return changed, err == nil
}

func set1(body []byte, path, raw string) ([]byte, bool) {
	changed, err := sjson.SetRawBytes(body, path, []byte(raw))
	return changed, err == nil
}

// insertFirst puts a member at the front of the object: it needs no look at
// the rest of a body that may be megabytes long.
func insertFirst(body []byte, member string) ([]byte, bool) {
	open := bytes.IndexByte(body, '{')
	if open < 0 || len(bytes.TrimLeft(body[:open], " \t\r\n")) > 0 {
		return nil, false
	}
	rest := body[open+1:]
	changed := make([]byte, 0, len(body)+len(member)+1)
	changed = append(append(changed, body[:open+1]...), member...)
	if next := bytes.TrimLeft(rest, " \t\r\n"); len(next) > 0 && next[0] != '}' {
		changed = append(changed, ',')
	}
	return append(changed, rest...), true
}
