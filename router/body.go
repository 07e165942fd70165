package router

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/lm-warden/warden/router/payload"
)

// patientReader reads from a client that may be slow but not idle. Without a
// limit a client could hold a connection and its buffer open for ever by
// sending nothing.
type patientReader struct {
	io.Reader
	ctx      context.Context
	control  *http.ResponseController
	patience time.Duration
	deadline time.Time
}

func (r *patientReader) Read(to []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	if limit := time.Now().Add(r.patience); limit.Sub(r.deadline) > time.Second {
		r.deadline = limit
		_ = r.control.SetReadDeadline(limit) // not every connection has deadlines
	}
	return r.Reader.Read(to)
}

// readBody reads the request's body, until the client has stalled or the
// Router is closed. net/http lifts the deadline once it has all been read.
func (x *exchange) readBody() (*payload.Payload, *refusal) {
	patient := &patientReader{Reader: x.req.Body, ctx: x.ctx, control: x.control, patience: x.router.opts.IdleTimeout}
	defer context.AfterFunc(x.ctx, func() { _ = x.control.SetReadDeadline(time.Now()) })()
	body, problem := payload.Read(x.req, patient, x.router.opts.MaxBody, &x.router.buffers)
	if problem != nil {
		return nil, &refusal{Error: *problem, close: true}
	}
	return body, nil
}
