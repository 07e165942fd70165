// Package payload holds a request body in memory: read once, within a bound,
// decoded, and sent any number of times.
package payload

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/lm-warden/warden/router/dialect"
)

// maxPooled is the largest buffer that goes back to the pool: a few large bodies
// must not keep their memory for ever.
const maxPooled = 4 << 20

// Pool lends buffers. The zero value is ready.
type Pool struct{ pool sync.Pool }

// Get lends an empty buffer.
func (p *Pool) Get() *bytes.Buffer {
	if b, ok := p.pool.Get().(*bytes.Buffer); ok {
		return b
	}
	return new(bytes.Buffer)
}

// Put takes a buffer back.
func (p *Pool) Put(b *bytes.Buffer) {
	if b.Cap() <= maxPooled {
		b.Reset()
		p.pool.Put(b)
	}
}

// Limits bound what bodies cost. All are in bytes.
type Limits struct {
	// Body is the largest body, after decoding.
	Body int64
	// Spool is the size beyond which a body lies in a file without a name
	// instead of memory. 0: never.
	Spool int64
	// Dir is where such files are; "" is os.TempDir().
	Dir string
}

// Payload is one body. It belongs to one goroutine.
type Payload struct {
	// Bytes is the decoded body, nil after Release: from then on nothing may
	// read what it pointed to. It must not be changed.
	Bytes []byte
	room  room
	pool  *Pool
}

// Release gives the body's memory back: as soon as nobody can ask for it once
// more, since an answer may take minutes. Later calls do nothing.
func (p *Payload) Release() {
	p.Bytes = nil
	p.room.free(p.pool)
}

// Read reads and decodes the whole body of req from in, at most limit bytes
// after decoding, or says what is wrong. The connection is then of no further
// use: part of the body may still be on its way.
func Read(req *http.Request, in io.Reader, limits Limits, pool *Pool) (*Payload, *dialect.Error) {
	if !isJSON(req.Header.Get("Content-Type")) {
		// Also closes the one door that web pages have to post without asking
		// first: forms and text/plain.
		return nil, wrong(http.StatusUnsupportedMediaType,
			fmt.Sprintf("content type %q, want application/json (curl: -H 'Content-Type: application/json')", req.Header.Get("Content-Type")))
	}
	if req.ContentLength > limits.Body {
		return nil, tooLarge(limits.Body)
	}
	sent := &bounded{in: in, left: limits.Body}
	decoded, problem := decode(sent, req.Header.Get("Content-Encoding"))
	if problem != nil {
		return nil, problem
	}
	defer decoded.Close()

	p := &Payload{pool: pool}
	body, err := p.room.fill(decoded, req.ContentLength, limits, pool)
	switch {
	case int64(len(body)) > limits.Body, sent.left < 0:
		p.Release()
		return nil, tooLarge(limits.Body)
	case err != nil:
		p.Release()
		return nil, wrong(http.StatusBadRequest, "cannot read the request body: "+err.Error())
	}
	p.Bytes = body
	return p, nil
}

// isJSON reports whether a Content-Type says so, with or without parameters.
func isJSON(contentType string) bool {
	const want = "application/json"
	if contentType == want {
		return true
	}
	kind, _, err := mime.ParseMediaType(contentType)
	return err == nil && kind == want
}

// bounded ends a body that is longer than a decoded one may be: compressed
// nothing has no end, and adds nothing to what has been decoded.
type bounded struct {
	in   io.Reader
	left int64 // bytes; negative: there were more
}

func (b *bounded) Read(to []byte) (int, error) {
	if b.left < 0 {
		return 0, errors.New("it is too long")
	}
	n, err := b.in.Read(to)
	b.left -= int64(n)
	return n, err
}

func tooLarge(limit int64) *dialect.Error {
	return wrong(http.StatusRequestEntityTooLarge, fmt.Sprintf("request body is larger than %d MiB", limit>>20))
}

func wrong(status int, message string) *dialect.Error {
	return &dialect.Error{Status: status, Message: message}
}

// decode undoes Content-Encoding.
func decode(in io.Reader, encoding string) (io.ReadCloser, *dialect.Error) {
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "", "identity":
		return io.NopCloser(in), nil
	case "gzip", "x-gzip":
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, wrong(http.StatusBadRequest, "the body is not gzip, as its Content-Encoding says: "+err.Error())
		}
		return z, nil
	case "zstd":
		// One goroutine-free decoder; its window is bounded so that a small
		// body cannot ask for gigabytes.
		z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(8<<20))
		if err != nil {
			return nil, wrong(http.StatusBadRequest, "cannot decode zstd: "+err.Error())
		}
		return z.IOReadCloser(), nil
	default:
		return nil, wrong(http.StatusUnsupportedMediaType,
			fmt.Sprintf("content encoding %q; gzip, zstd and none are understood", encoding))
	}
}
