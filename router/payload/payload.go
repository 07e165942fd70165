// Package payload holds a request body in memory: read once, within a bound,
// decoded, and sent any number of times.
package payload

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/lm-warden/warden/router/dialect"
)

// Buffers up to this size go back to the pool; a few huge bodies must not
// keep their memory for ever.
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

// Payload is one body. It belongs to one goroutine.
type Payload struct {
	// Bytes is the decoded body, nil after Release. It must not be changed.
	Bytes  []byte
	buffer *bytes.Buffer
	pool   *Pool
}

// Release gives the body's memory back: as soon as nobody can ask for it once
// more, since an answer may take minutes. Later calls do nothing.
func (p *Payload) Release() {
	if p.buffer != nil {
		p.pool.Put(p.buffer)
		p.Bytes, p.buffer = nil, nil
	}
}

// Read reads and decodes the whole body of req from in, at most limit bytes
// after decoding, or says what is wrong. The connection is then of no further
// use: part of the body may still be on its way.
func Read(req *http.Request, in io.Reader, limit int64, pool *Pool) (*Payload, *dialect.Error) {
	if kind, _, err := mime.ParseMediaType(req.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		// Also closes the one door that web pages have to post without asking
		// first: forms and text/plain.
		return nil, wrong(http.StatusUnsupportedMediaType,
			fmt.Sprintf("content type %q, want application/json (curl: -H 'Content-Type: application/json')", req.Header.Get("Content-Type")))
	}
	if req.ContentLength > limit {
		return nil, tooLarge(limit)
	}
	decoded, problem := decode(in, req.Header.Get("Content-Encoding"))
	if problem != nil {
		return nil, problem
	}
	defer decoded.Close()

	buffer := pool.Get()
	p := &Payload{buffer: buffer, pool: pool}
	err := fill(buffer, io.LimitReader(decoded, limit+1), req.ContentLength)
	p.Bytes = buffer.Bytes()
	switch {
	case int64(buffer.Len()) > limit:
		p.Release()
		return nil, tooLarge(limit)
	case err != nil:
		p.Release()
		return nil, wrong(http.StatusBadRequest, "cannot read the request body: "+err.Error())
	}
	return p, nil
}

// fill reads all of in into the empty buffer b. It is bytes.Buffer.ReadFrom
// with another rule of growth, because bodies are large: while one is copied to
// more room, both rooms together are at most twice its declared length or, when
// none is declared, two and a quarter times what has come; and some slack.
func fill(b *bytes.Buffer, in io.Reader, declared int64) error {
	data := b.AvailableBuffer()
	for {
		if len(data) == cap(data) {
			data = append(make([]byte, 0, room(len(data), declared)), data...)
		}
		n, err := in.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		if err != nil {
			*b = *bytes.NewBuffer(data)
			if err == io.EOF {
				return nil
			}
			return err
		}
	}
}

// slack is what may be wasted: small bodies are not worth the care.
const slack = 1 << 20

// room is how much to make for a body of which have bytes have come and declared
// bytes are said to (-1 unknown). A declared length is believed once half of it
// has really arrived.
func room(have int, declared int64) int {
	next := have + have/4 + slack
	if declared >= int64(have) && declared <= int64(2*have+slack) {
		// One byte more finds the end without another round.
		next = int(declared) + 1
	}
	return max(next, bytes.MinRead)
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
