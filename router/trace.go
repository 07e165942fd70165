package router

import (
	"net/http"
	"strings"
)

// The headers of W3C Trace Context.
const (
	traceparent = "Traceparent"
	tracestate  = "Tracestate"
)

// trace takes the trace that the client named and begins the request's span.
func (x *exchange) trace() {
	in := TraceContext{Parent: only(x.req.Header[traceparent])}
	if in.TraceID() != "" {
		in.State = strings.Join(x.req.Header[tracestate], ",")
	}
	if x.router.opts.Trace == nil {
		x.record.Trace = in
		return
	}
	x.record.Trace, x.traced = x.router.opts.Trace(x.record.Arrived, in)
}

// tellTrace names the request's span to the engine. Without one the client's
// own headers have gone there untouched.
func (x *exchange) tellTrace(h http.Header) {
	if x.traced == nil {
		return
	}
	for name, value := range map[string]string{traceparent: x.record.Trace.Parent, tracestate: x.record.Trace.State} {
		if h.Del(name); value != "" {
			h.Set(name, value)
		}
	}
}

// report tells of a request that has ended.
func (x *exchange) report() {
	if x.traced != nil {
		x.traced(x.record)
	}
	x.router.opts.OnFinish(x.record)
}

// only is the value of a header that may stand once; "" otherwise.
func only(values []string) string {
	if len(values) != 1 {
		return ""
	}
	return values[0]
}
