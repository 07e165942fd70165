package server

import (
	"context"
	"errors"
	"io"
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

// errCut ends a handler whose answer has been broken off.
var errCut = errors.New("answer cut off on demand")

// ended translates the end of a generation: nil when it is complete, errGone
// when the client has left, else the engine's error.
func ended(err error) error {
	var failure *apiError
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case errors.As(err, &failure):
		return failure
	}
	return errGone
}

// eventStream writes server-sent events, one per flush, as vLLM does.
type eventStream struct {
	w       http.ResponseWriter
	flusher *http.ResponseController
	request *http.Request
	cut     prompt.Cut
	sent    int
}

// openStream sends the headers at once: in vLLM they leave before the first
// token.
func openStream(w http.ResponseWriter, r *http.Request, cut prompt.Cut) *eventStream {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.WriteHeader(http.StatusOK)
	e := &eventStream{w: w, flusher: http.NewResponseController(w), request: r, cut: cut}
	_ = e.flusher.Flush() // a client that left shows in its context
	return e
}

// send writes one event; name is empty on OpenAI's chat and completion APIs.
// It returns errCut when the answer is to break off here, and an *apiError when
// an error event is to follow.
func (e *eventStream) send(name string, data []byte) error {
	if e.cut.Kind != prompt.NoCut && e.sent >= e.cut.After {
		switch e.cut.Kind {
		case prompt.StreamError:
			e.cut = prompt.Cut{} // the error event itself goes out
			return scriptedError(http.StatusInternalServerError)
		case prompt.Truncate:
			return errCut
		}
		abort(e.request, e.cut.Kind)
	}
	e.write(name, data)
	return nil
}

func (e *eventStream) write(name string, data []byte) {
	var event []byte
	if name != "" {
		event = append(append(append(event, "event: "...), name...), '\n')
	}
	event = append(append(append(event, "data: "...), data...), "\n\n"...)
	_, _ = e.w.Write(event)
	_ = e.flusher.Flush()
	e.sent++
}

// finish ends a stream of OpenAI's chat or completion API: an error goes out as
// an event, and [DONE] follows in any case but a cut.
func (e *eventStream) finish(err error) {
	var failure *apiError
	if errors.As(err, &failure) {
		e.write("", encode(failure.openAI()))
		err = nil
	}
	if err == nil {
		e.write("", []byte("[DONE]"))
	}
}

// abort ends the handler and closes its connection, with a reset if asked for.
func abort(r *http.Request, kind prompt.CutKind) {
	if conn, ok := r.Context().Value(connKey{}).(*net.TCPConn); ok && kind == prompt.Reset {
		_ = conn.SetLinger(0)
	}
	panic(http.ErrAbortHandler)
}

// writeAnswer sends a complete JSON answer, or a part of it where it is to
// break off: the promised length then never comes.
func writeAnswer(w http.ResponseWriter, r *http.Request, cut prompt.Cut, v any) {
	switch cut.Kind {
	case prompt.NoCut:
		writeJSON(w, http.StatusOK, v)
		return
	case prompt.StreamError:
		failOpenAI(w, scriptedError(http.StatusInternalServerError))
		return
	}
	body := encode(v)
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body[:len(body)/2])
	_ = http.NewResponseController(w).Flush()
	abort(r, cut.Kind)
}
