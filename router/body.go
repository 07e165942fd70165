package router

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/zstd"
)

// Buffers up to this size go back to the pool; a few huge bodies must not
// keep their memory for ever.
const maxPooled = 4 << 20

// payload is a request body in memory. It is read once and sent any number of
// times, also by a transport that still reads it after its round trip has
// failed; the buffer is reused when the last reader is gone.
type payload struct {
	bytes  []byte
	buffer *bytes.Buffer
	pool   *sync.Pool
	refs   atomic.Int32
}

// release gives up the owner's reference.
func (p *payload) release() {
	if p.refs.Add(-1) == 0 && p.buffer.Cap() <= maxPooled {
		p.buffer.Reset()
		p.pool.Put(p.buffer)
	}
}

// send returns body, which is p's bytes or an edited copy of them, as the body
// of one outgoing request.
func (p *payload) send(body []byte) io.ReadCloser {
	p.refs.Add(1)
	return &payloadReader{payload: p, rest: body}
}

// payloadReader: a transport may close it while its writing goroutine reads.
type payloadReader struct {
	mu      sync.Mutex
	payload *payload
	rest    []byte
}

func (r *payloadReader) Read(to []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(to, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func (r *payloadReader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.payload != nil {
		r.payload.release()
		r.payload, r.rest = nil, nil
	}
	return nil
}

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
func (x *exchange) readBody() (*payload, *refusal) {
	patient := &patientReader{Reader: x.req.Body, ctx: x.ctx, control: x.control, patience: x.router.opts.IdleTimeout}
	defer context.AfterFunc(x.ctx, func() { _ = x.control.SetReadDeadline(time.Now()) })()
	return readBody(x.req, patient, x.router.opts.MaxBody, &x.router.bodies)
}

// readBody reads and decodes the whole body of req from in, or says what is
// wrong.
func readBody(req *http.Request, in io.Reader, limit int64, pool *sync.Pool) (*payload, *refusal) {
	if kind, _, err := mime.ParseMediaType(req.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		// Also closes the one door that web pages have to post without asking
		// first: forms and text/plain.
		return nil, forbid(http.StatusUnsupportedMediaType,
			fmt.Sprintf("content type %q, want application/json (curl: -H 'Content-Type: application/json')", req.Header.Get("Content-Type")))
	}
	if req.ContentLength > limit {
		return nil, tooLarge(limit)
	}
	decoded, refused := decode(in, req.Header.Get("Content-Encoding"))
	if refused != nil {
		return nil, refused
	}
	defer decoded.Close()

	buffer := pool.Get().(*bytes.Buffer)
	// A declared length is believed up to 1 MiB: more must really arrive.
	buffer.Grow(int(min(max(req.ContentLength, 0), 1<<20)) + bytes.MinRead)
	p := &payload{buffer: buffer, pool: pool}
	p.refs.Store(1)
	_, err := buffer.ReadFrom(io.LimitReader(decoded, limit+1))
	p.bytes = buffer.Bytes()
	switch {
	case int64(buffer.Len()) > limit:
		p.release()
		return nil, tooLarge(limit)
	case err != nil:
		p.release()
		r := forbid(http.StatusBadRequest, "cannot read the request body: "+err.Error())
		r.close = true
		return nil, r
	}
	return p, nil
}

func tooLarge(limit int64) *refusal {
	r := forbid(http.StatusRequestEntityTooLarge, fmt.Sprintf("request body is larger than %d MiB", limit>>20))
	r.close = true // the rest of it is still on its way
	return r
}

// decode undoes Content-Encoding.
func decode(in io.Reader, encoding string) (io.ReadCloser, *refusal) {
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "", "identity":
		return io.NopCloser(in), nil
	case "gzip", "x-gzip":
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, forbid(http.StatusBadRequest, "the body is not gzip, as its Content-Encoding says: "+err.Error())
		}
		return z, nil
	case "zstd":
		// One goroutine-free decoder; its window is bounded so that a small
		// body cannot ask for gigabytes.
		z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(8<<20))
		if err != nil {
			return nil, forbid(http.StatusBadRequest, "cannot decode zstd: "+err.Error())
		}
		return z.IOReadCloser(), nil
	default:
		return nil, forbid(http.StatusUnsupportedMediaType,
			fmt.Sprintf("content encoding %q; gzip, zstd and none are understood", encoding))
	}
}
