package router

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/lm-warden/warden/router/dialect"
	"github.com/lm-warden/warden/router/link"
	"github.com/lm-warden/warden/router/socket"
)

// relayStream copies a stream of events. Nothing is sent before the first byte
// has come: vLLM sends its headers long before the first token, and until
// something was sent the request can still move to another replica.
func (x *exchange) relayStream(p *place, resp *link.Answer) (again bool) {
	x.stream = dialect.NewStream(x.api, dialect.Edits{HideUsage: x.edit.IncludeUsage, MendUsage: x.mendsUsage(true)})
	defer x.measured()
	for {
		piece, err := resp.Next()
		if err != nil {
			return x.streamOver(p, resp, err)
		}
		out := x.feed(p, piece)
		if x.stream.EngineDead && !x.committed {
			return x.brokeOff(p, p.up.dead())
		}
		if x.stream.Content {
			x.firstToken()
		}
		x.send(resp, out, true)
		if x.record.FirstToken.IsZero() || !x.committed {
			continue
		}
		if wire := wireOf(x.req); wire != nil {
			return x.streamOver(p, resp, x.pump(p, resp, wire))
		}
	}
}

// feed reads the next piece of a stream and returns what goes to the client.
func (x *exchange) feed(p *place, piece []byte) (out []byte) {
	out, progress := x.stream.Feed(piece)
	if progress {
		p.up.touch(time.Now())
	}
	return out
}

// pump copies the rest of a stream whose answer has begun. As long as the client
// takes what comes, this goroutine sleeps: the router's pump reads from the
// engine's socket and writes to the client's.
func (x *exchange) pump(p *place, resp *link.Answer, wire *wire) error {
	defer func() {
		// net/http writes the end, and has seen no write for a while.
		x.deadlines.BeginWrite()
		x.deadlines.EndWrite()
	}()
	for {
		var left []byte
		var failed error
		err := resp.Each(&x.router.pump, func(piece []byte) (more bool) {
			out := x.feed(p, piece)
			x.record.BytesOut += int64(len(out))
			left, failed = wire.chunk(out)
			return failed == nil && len(left) == 0
		})
		if failed == nil && err == nil {
			failed = x.writeOut(wire, left)
		}
		switch {
		case failed != nil:
			x.unwritable(failed)
		case err != nil:
			return err
		}
	}
}

// writeOut writes what the client had no room for when it came.
func (x *exchange) writeOut(wire *wire, left []byte) (err error) {
	defer x.deadlines.EndWrite()
	for err == nil && len(left) > 0 {
		var n int
		x.deadlines.BeginWrite()
		n, err = wire.under.Write(left[:min(len(left), readable)])
		left = left[n:]
	}
	return err
}

// measured takes over what a stream said about itself.
func (x *exchange) measured() { x.record.Measured(x.stream.Summary) }

// streamOver ends a stream after its last piece. One that has its end marker
// is complete whatever happens to the connection; one that has not is broken
// even if the engine closed it properly.
func (x *exchange) streamOver(p *place, resp *link.Answer, err error) (again bool) {
	if x.stream.Ended {
		if x.stream.Failed {
			x.record.Failed = true
		}
		if x.stream.EngineDead {
			x.turn.d.failed(p.up, p.up.dead())
		}
		x.send(resp, x.stream.Close(), true)
		return false
	}
	if errors.Is(err, io.EOF) {
		err = errCutShort
	}
	if x.ctx.Err() == nil && x.committed && !x.stream.MidEvent() {
		x.send(resp, x.api.ErrorEvent(dialect.Error{
			Status:  http.StatusBadGateway,
			Message: fmt.Sprintf("replica %s broke off in the middle of its answer (%v); the answer is incomplete", p.up.id, err),
		}, x.requestID), true)
	}
	return x.broken(p, err)
}

// connKey is where NewServer keeps a request's connection in its context.
type connKey struct{}

// wire writes to a client's connection below net/http, in the chunks of the
// answer that net/http has begun there and will end.
type wire struct {
	under  socket.Trier
	head   [20]byte // a size in hexadecimal and a line end
	pieces [3][]byte
}

var lineEnd = []byte("\r\n")

// wireOf returns nil where the answer is not chunked, or the connection cannot
// be written to without waiting: HTTP/2, TLS, HTTP/1.0, tests in memory.
func wireOf(req *http.Request) *wire {
	conn, ok := req.Context().Value(connKey{}).(net.Conn)
	if !ok || req.ProtoMajor != 1 || req.ProtoMinor < 1 || req.TLS != nil {
		return nil
	}
	under := socket.Under(conn)
	if under == nil {
		return nil
	}
	return &wire{under: under}
}

// chunk writes data as far as there is room, and returns a copy of what is left
// of the chunk.
func (w *wire) chunk(data []byte) (left []byte, err error) {
	if len(data) == 0 {
		return nil, nil
	}
	head := append(strconv.AppendUint(w.head[:0], uint64(len(data)), 16), lineEnd...)
	w.pieces = [3][]byte{head, data, lineEnd}
	n, err := w.under.TryWritev(w.pieces[:])
	if err == nil && n < len(head)+len(data)+len(lineEnd) {
		left = slices.Concat(w.pieces[:]...)[n:]
	}
	w.pieces = [3][]byte{}
	return left, err
}
