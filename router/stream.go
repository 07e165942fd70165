package router

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"time"

	"github.com/lm-warden/warden/router/deployment"
	"github.com/lm-warden/warden/router/dialect"
	"github.com/lm-warden/warden/router/keepalive"
	"github.com/lm-warden/warden/router/link"
	"github.com/lm-warden/warden/router/pump"
)

// relayStream copies a stream of events. Nothing is sent before the first byte
// has come: vLLM sends its headers long before the first token, and until
// something was sent the request can still move to another replica.
func (x *exchange) relayStream(p *deployment.Place, resp *link.Answer) (again bool) {
	x.stream = dialect.NewStream(x.api, dialect.Edits{HideUsage: x.edit.IncludeUsage, MendUsage: x.mendsUsage(true)})
	x.later(x.measured)
	for {
		piece, err := resp.Next()
		if err != nil {
			return x.streamOver(p, resp, err)
		}
		out := x.feed(p, piece)
		if x.stream.EngineDead && !x.committed {
			return x.brokeOff(p, p.Up.Dead())
		}
		if x.stream.Content {
			x.firstToken()
		}
		x.send(resp, out, true)
		if x.detach(resp) {
			go x.goOn(p, resp)
			return false
		}
	}
}

// feed reads the next piece of a stream and returns what goes to the client.
func (x *exchange) feed(p *deployment.Place, piece []byte) (out []byte) {
	out, progress := x.stream.Feed(piece)
	if progress {
		p.Up.Touch(time.Now())
	}
	return out
}

// detach takes the client's connection away from net/http once the answer has
// well begun, where that can be. The handler is to return then; the exchange
// goes on.
func (x *exchange) detach(resp *link.Answer) bool {
	if x.record.FirstToken.IsZero() || !x.committed || !keepalive.Can(x.req) || !resp.Release(&x.router.pump) {
		return false
	}
	if !x.stays() {
		x.left() // is on its way, too
		x.cut()
	}
	taken, err := keepalive.Take(x.w, x.req)
	if err != nil {
		// The watch for the client's leaving is over: no stream without it.
		x.unwritable(err)
	}
	x.deadlines.Own(taken)
	x.wire = &wire{Taken: taken}
	x.w, x.req, x.drop, x.away = nil, nil, nil, true
	return true
}

// goOn copies the rest of the stream of a detached exchange, and ends it.
func (x *exchange) goOn(p *deployment.Place, resp *link.Answer) {
	whole := false
	defer func() {
		x.fault(p, recover()) // of settling the accounts
		if whole {
			x.wire.GiveBack()
			return
		}
		_ = x.wire.Close()
	}()
	defer x.undoAll(0)
	defer func() { x.fault(p, recover()) }()
	x.streamOver(p, resp, x.pump(p, resp))
	whole = x.writeOut(lastChunk) == nil
}

// fault logs a panic that is no end of a request, as net/http does for handlers.
func (x *exchange) fault(p *deployment.Place, fault any) {
	if fault == nil || fault == http.ErrAbortHandler {
		return
	}
	x.record.Failed = true
	stack := debug.Stack()
	if inPump, ok := fault.(*pump.Panic); ok {
		stack = inPump.Stack
	}
	x.router.opts.Log.Error("a request failed for a fault of warden's own", "model", x.record.Model, "replica", p.Up.ID,
		"err", fmt.Sprint(fault), "stack", string(stack))
}

// lastChunk ends an answer in chunks.
var lastChunk = []byte("0\r\n\r\n")

// pump copies the rest of a stream. As long as the client takes what comes, this
// goroutine sleeps: the router's pump reads from the engine's socket and writes
// to the client's.
func (x *exchange) pump(p *deployment.Place, resp *link.Answer) error {
	for {
		var left []byte
		var failed error
		err := resp.Each(&x.router.pump, x.wire, x.gone, func(piece []byte) (more bool) {
			left, failed = x.wire.chunk(x.feed(p, piece), &x.record.BytesOut)
			return failed == nil && len(left) == 0
		})
		if failed == nil && len(left) > 0 {
			failed = x.writeOut(left)
		}
		if failed != nil {
			x.unwritable(failed)
		}
		if err != nil {
			return err
		}
	}
}

// gone ends a detached exchange because its client has left. One that has only
// said that it sends no more might never read on.
func (x *exchange) gone() {
	x.left()
	x.deadlines.EndWrites(0)
}

// writeOut writes what is already in chunks. Where there is no room for it, it
// waits for the client: until that reads on, leaves, or has read nothing for too
// long.
func (x *exchange) writeOut(left []byte) error {
	n, err := x.wire.TryWritev([][]byte{left})
	if left = left[n:]; err != nil || len(left) == 0 {
		return err
	}
	defer x.router.pump.Watch(x.wire, x.gone)()
	defer x.deadlines.EndWrite()
	for err == nil && len(left) > 0 {
		x.deadlines.BeginWrite()
		n, err = x.wire.Write(left[:min(len(left), readable)])
		left = left[n:]
	}
	return err
}

// measured takes over what a stream said about itself.
func (x *exchange) measured() { x.record.Measured(x.stream.Summary) }

// streamOver ends a stream after its last piece. One that has its end marker
// is complete whatever happens to the connection; one that has not is broken
// even if the engine closed it properly.
func (x *exchange) streamOver(p *deployment.Place, resp *link.Answer, err error) (again bool) {
	if x.stream.Ended {
		if x.stream.Failed {
			x.record.Failed = true
		}
		if x.stream.EngineDead {
			x.turn.Failed(p.Up, p.Up.Dead())
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
			Message: fmt.Sprintf("%s in the middle of its answer (%v); the answer is incomplete", whoBroke(p, err), err),
		}, x.requestID), true)
	}
	return x.broken(p, err)
}

// whoBroke names who ended an answer early.
func whoBroke(p *deployment.Place, err error) string {
	if link.Own(err) {
		return "warden ran into a limit of its own"
	}
	return fmt.Sprintf("replica %s broke off", p.Up.ID)
}

// wire is a client's connection below net/http, in the middle of an answer in
// chunks.
type wire struct {
	*keepalive.Taken
	head   [20]byte // a size in hexadecimal and a line end
	pieces [3][]byte
}

var lineEnd = []byte("\r\n")

// chunk writes data as far as there is room, counts it, and returns a copy of
// what is left of the chunk.
func (w *wire) chunk(data []byte, count *int64) (left []byte, err error) {
	if len(data) == 0 {
		return nil, nil
	}
	head := append(strconv.AppendUint(w.head[:0], uint64(len(data)), 16), lineEnd...)
	w.pieces = [3][]byte{head, data, lineEnd}
	n, err := w.TryWritev(w.pieces[:])
	if err == nil && n < len(head)+len(data)+len(lineEnd) {
		left = slices.Concat(w.pieces[:]...)[n:]
	}
	w.pieces = [3][]byte{}
	*count += int64(len(data))
	return left, err
}
