package router

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/lm-warden/warden/router/deployment"
	"github.com/lm-warden/warden/router/dialect"
	"github.com/lm-warden/warden/router/gate"
	"github.com/lm-warden/warden/router/link"
	"github.com/lm-warden/warden/router/record"
)

// maxWhole bounds how much of an unstreamed answer is held back until it is
// complete. The longest answers of text are a tenth of it; what is larger
// (embeddings of many texts, token ids) is passed on unread as it comes.
const maxWhole = 1 << 20

// relay copies an answer with a good status to the client: a stream piece by
// piece, each as soon as it has come. again is as for attempt.
func (x *exchange) relay(p *deployment.Place, resp *link.Answer) (again bool) {
	if isEventStream(resp) {
		return x.relayStream(p, resp)
	}
	return x.relayWhole(p, resp)
}

// relayWhole copies an unstreamed answer. Nothing of it is sent before it is
// complete: a client can do nothing with a part, and until then the request can
// still move to another replica.
func (x *exchange) relayWhole(p *deployment.Place, resp *link.Answer) (again bool) {
	whole := x.router.buffers.Get()
	defer x.router.buffers.Put(whole)
	for whole.Len() <= maxWhole {
		piece, err := resp.Next()
		if errors.Is(err, io.EOF) {
			x.sendWhole(resp, whole.Bytes())
			return false
		}
		if err != nil {
			return x.broken(p, err)
		}
		whole.Write(piece)
		p.Up.Touch(time.Now())
	}
	x.firstToken()
	x.send(resp, whole.Bytes(), false)
	return x.relayRest(p, resp)
}

// sendWhole sends a complete answer and reads its usage.
func (x *exchange) sendWhole(resp *link.Answer, body []byte) {
	x.record.Measured(x.api.ReadAnswer(body))
	if x.mendsUsage(false) {
		body, _ = dialect.MendUsage(body)
	}
	resp.Header.Set("Content-Length", strconv.Itoa(len(body)))
	if len(body) == 0 {
		x.commit(resp, false)
		return
	}
	x.firstToken()
	x.send(resp, body, false)
}

// relayRest copies what follows of an answer that is too large to hold.
func (x *exchange) relayRest(p *deployment.Place, resp *link.Answer) (again bool) {
	for {
		piece, err := resp.Next()
		if errors.Is(err, io.EOF) {
			return false
		}
		if err != nil {
			return x.broken(p, err)
		}
		p.Up.Touch(time.Now())
		x.send(resp, piece, false)
	}
}

// broken handles an answer that stops before its end. When the client has seen
// part of it, its connection is cut, so that it cannot take the part for the
// whole.
func (x *exchange) broken(p *deployment.Place, err error) (again bool) {
	err = fmt.Errorf("replica %s: %w", p.Up.ID, err)
	if !x.committed {
		return x.brokeOff(p, err)
	}
	if x.ctx.Err() != nil {
		x.cut()
		return false
	}
	x.record.Failed = true
	if link.Own(err) {
		x.record.Cause = record.CauseOwnLimit
		x.router.opts.Log.Warn("warden has run into a limit of its own in the middle of an answer", "model", x.record.Model, "err", err)
		panic(http.ErrAbortHandler)
	}
	x.turn.Failed(p.Up, err)
	x.router.opts.Log.Warn("replica broke off in the middle of an answer", "replica", p.Up.ID, "model", x.record.Model,
		"session", x.turn.Key.Short(), "err", err)
	panic(http.ErrAbortHandler)
}

// send writes one piece to the client. It does not return when the client has
// left or does not read.
func (x *exchange) send(resp *link.Answer, piece []byte, flush bool) {
	if len(piece) == 0 {
		return
	}
	now := time.Now()
	if !x.committed {
		x.record.FirstByte = now
		x.commit(resp, flush)
	}
	if err := x.write(piece, flush); err != nil {
		x.unwritable(err)
	}
}

// unwritable ends the handler after a write that failed.
func (x *exchange) unwritable(err error) {
	late := errors.Is(err, os.ErrDeadlineExceeded) || x.deadlines.Stalled()
	cause := context.Cause(x.ctx)
	ended := x.router.ctx.Err() != nil || errors.Is(cause, errResent) ||
		x.wire != nil && errors.Is(cause, errLeft) // net/http takes a late client for one that has left
	x.record.Stalled = late && !ended
	x.abort()
}

// write writes what the client can take in time.
func (x *exchange) write(piece []byte, flush bool) (err error) {
	if x.wire != nil {
		left, err := x.wire.chunk(piece, &x.record.BytesOut)
		if err != nil {
			return err
		}
		return x.writeOut(left)
	}
	defer x.deadlines.EndWrite()
	for err == nil && len(piece) > 0 {
		var n int
		x.deadlines.BeginWrite()
		n, err = x.w.Write(piece[:min(len(piece), readable)])
		x.record.BytesOut += int64(n)
		piece = piece[n:]
	}
	if err == nil && flush {
		err = x.deadlines.Flush()
	}
	return err
}

// readable is what a client must be able to take within Options.IdleTimeout, in
// bytes: about 1 kB/s, however long its answer is.
const readable = 32 << 10

// commit sends the response headers: from here on there is no other replica,
// and nobody needs the request's body any more.
func (x *exchange) commit(resp *link.Answer, stream bool) {
	x.committed = true
	x.payload.Release()
	x.payload, x.parts, x.scan, x.who = nil, nil, nil, nil
	x.req.Header = nil // five headers are 0.7 KiB, for as long as the stream
	h := x.w.Header()
	gate.Returned(h, resp.Header)
	if stream {
		h.Del("Content-Length")
		h.Set("X-Accel-Buffering", "no")
		if h.Get("Cache-Control") == "" {
			h.Set("Cache-Control", "no-cache")
		}
	}
	x.mark()
	x.record.Status = resp.Status
	x.w.WriteHeader(resp.Status)
	resp.Header = nil
}

// mark tells the client who answered, and why that one.
func (x *exchange) mark() {
	h := x.w.Header()
	h.Set("X-Request-Id", x.requestID)
	h.Set("X-Warden-Replica", string(x.record.Replica))
	h.Set("X-Warden-Reason", string(x.record.Reason))
}

// firstToken notes the first content of an answer.
func (x *exchange) firstToken() {
	if x.record.FirstToken.IsZero() {
		x.record.FirstToken = time.Now()
		x.turn.FirstToken()
	}
}
