package wire

import (
	"context"
	"errors"
	"net"
	"net/http"

	"github.com/lm-warden/warden/supervisor/simengine/prompt"
)

type connKey struct{}

// ConnContext is for http.Server.ConnContext: with it a request can reset its
// connection. Without it a reset is an ordinary close.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// errCut ends a stream that has been broken off.
var errCut = errors.New("answer cut off on demand")

// Events is a stream of server-sent events, one per flush, as vLLM does.
type Events struct {
	w       http.ResponseWriter
	flusher *http.ResponseController
	request *http.Request
	cut     prompt.Cut
	sent    int
}

// Open begins a stream: its headers leave at once, in vLLM before the first
// token.
func Open(w http.ResponseWriter, r *http.Request, cut prompt.Cut) *Events {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.WriteHeader(http.StatusOK)
	e := &Events{w: w, flusher: http.NewResponseController(w), request: r, cut: cut}
	_ = e.flusher.Flush() // a client that left shows in its context
	return e
}

// Send writes one event; name is empty on OpenAI's chat and completion APIs.
// It returns errCut when the answer is to break off here, and an *Error when
// an error event is to follow.
func (e *Events) Send(name string, v any) error {
	if e.cut.Kind != prompt.NoCut && e.sent >= e.cut.After {
		switch e.cut.Kind {
		case prompt.StreamError:
			e.cut = prompt.Cut{} // the error event itself goes out
			return Scripted(http.StatusInternalServerError)
		case prompt.Truncate:
			return errCut
		}
		abort(e.request, e.cut.Kind)
	}
	e.write(name, Encode(v))
	return nil
}

// Last writes an event that no cut keeps back: an error.
func (e *Events) Last(name string, v any) { e.write(name, Encode(v)) }

// Done writes what ends a stream of OpenAI's chat and completion APIs.
func (e *Events) Done() { e.write("", []byte("[DONE]")) }

func (e *Events) write(name string, data []byte) {
	var event []byte
	if name != "" {
		event = append(append(append(event, "event: "...), name...), '\n')
	}
	event = append(append(append(event, "data: "...), data...), "\n\n"...)
	_, _ = e.w.Write(event)
	_ = e.flusher.Flush()
	e.sent++
}

// abort ends the handler and closes its connection, with a reset if asked for.
func abort(r *http.Request, kind prompt.CutKind) {
	if conn, ok := r.Context().Value(connKey{}).(*net.TCPConn); ok && kind == prompt.Reset {
		_ = conn.SetLinger(0)
	}
	panic(http.ErrAbortHandler)
}

// WriteAnswer sends a complete JSON answer, or a part of it where it is to
// break off: the promised length then never comes. An answer that is to end in
// an error is that error, and nothing has been written.
func WriteAnswer(w http.ResponseWriter, r *http.Request, cut prompt.Cut, v any) error {
	switch cut.Kind {
	case prompt.NoCut:
		Write(w, http.StatusOK, v)
		return nil
	case prompt.StreamError:
		return Scripted(http.StatusInternalServerError)
	}
	body := Encode(v)
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body[:len(body)/2])
	_ = http.NewResponseController(w).Flush()
	abort(r, cut.Kind)
	return nil
}
