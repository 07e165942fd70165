package record

import "strings"

// TraceContext is the place of a request in a distributed trace: the values of
// the headers traceparent and tracestate (W3C Trace Context, level 1).
type TraceContext struct{ Parent, State string }

// A traceparent is version, trace id, parent id and flags, in lower-case hex:
// 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01. Later versions may
// append fields.
const (
	traceIDStart, traceIDEnd = 3, 35
	spanIDStart, spanIDEnd   = 36, 52
	parentLength             = 55
)

// TraceID is the trace id as 32 hex digits; "" when Parent names no trace.
func (c TraceContext) TraceID() string {
	p := c.Parent
	if len(p) < parentLength || p[2] != '-' || p[traceIDEnd] != '-' || p[spanIDEnd] != '-' {
		return ""
	}
	version, id, span, flags := p[:2], p[traceIDStart:traceIDEnd], p[spanIDStart:spanIDEnd], p[spanIDEnd+1:parentLength]
	known := version == "00" && len(p) == parentLength
	later := version != "00" && version != "ff" && (len(p) == parentLength || p[parentLength] == '-')
	switch {
	case !known && !later, !isHex(version), !isHex(id), !isHex(span), !isHex(flags):
		return ""
	case strings.Trim(id, "0") == "", strings.Trim(span, "0") == "":
		return ""
	}
	return id
}

func isHex(s string) bool {
	return strings.Trim(s, "0123456789abcdef") == ""
}
