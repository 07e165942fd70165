package link

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// maxHead bounds an answer's head; uvicorn's are a few hundred bytes.
const maxHead = 256 << 10

// Answer is an engine's answer. It belongs to one goroutine.
type Answer struct {
	Status int
	Header http.Header

	conn     *conn
	method   string
	stop     func() bool // the watch for the end of the request's context
	body     framing
	reusable bool  // the connection, once the body has been read
	err      error // what Next returns from now on
	broken   error // what is wrong behind the piece that Next returned last
	rest     []byte
}

// parsers are readers for net/http's parser of heads.
var parsers = sync.Pool{New: func() any { return bufio.NewReader(nil) }}

// maxProvisional bounds the heads before an answer's own; engines send none, or
// one 100 Continue.
const maxProvisional = 16

// readHead reads the answer's head; provisional ones (1xx) are left out.
func (a *Answer) readHead() error {
	for range maxProvisional {
		head, err := a.conn.head()
		if err != nil {
			return err
		}
		if err := a.parse(head); err != nil {
			return err
		}
		switch {
		case a.Status == http.StatusSwitchingProtocols:
			return errors.New("the engine switched protocols without being asked to")
		case a.Status >= 200:
			return nil
		}
	}
	return fmt.Errorf("the engine sent %d provisional answers and none of its own", maxProvisional)
}

// parse reads a whole head.
func (a *Answer) parse(head []byte) error {
	parser := parsers.Get().(*bufio.Reader)
	defer parsers.Put(parser)
	from := bytes.NewReader(head)
	parser.Reset(from)
	defer parser.Reset(nil)
	resp, err := http.ReadResponse(parser, &http.Request{Method: a.method})
	if err != nil {
		return fmt.Errorf("the engine's answer is not HTTP: %w", err)
	}
	if from.Len()+parser.Buffered() > 0 {
		return errors.New("the engine's answer is not HTTP: it is in doubt where its head ends")
	}
	a.Status, a.Header = resp.StatusCode, resp.Header
	a.reusable = !resp.Close && resp.ProtoAtLeast(1, 1)
	switch {
	case resp.Body == http.NoBody:
		a.body = framing{}
	case len(resp.TransferEncoding) > 0: // net/http accepts chunked and nothing else
		a.body = framing{kind: chunked}
	case resp.ContentLength >= 0:
		a.body = framing{kind: sized, left: resp.ContentLength}
	default:
		a.body, a.reusable = framing{kind: untilClose}, false
	}
	return nil
}

// head reads up to and including the empty line that ends a head. What it
// returns is valid until the next read.
func (c *conn) head() ([]byte, error) {
	var kept []byte
	for {
		if len(c.unread) == 0 {
			if err := c.fill(); err != nil {
				if errors.Is(err, io.EOF) && len(kept) > 0 {
					err = io.ErrUnexpectedEOF
				}
				return nil, err
			}
		}
		before := len(kept)
		if before == 0 {
			if n := headEnd(c.unread); n > 0 { // as good as always
				head := c.unread[:n]
				c.unread = c.unread[n:]
				return head, nil
			}
		}
		kept = append(kept, c.unread...)
		if n := headEnd(kept); n > 0 {
			c.unread = c.unread[n-before:]
			return kept[:n], nil
		}
		c.unread = nil
		if len(kept) > maxHead {
			return nil, fmt.Errorf("the head of the engine's answer is larger than %d KiB", maxHead>>10)
		}
	}
}

// headEnd is the index just behind the first empty line, 0 when there is none.
func headEnd(b []byte) int {
	for i := 0; ; {
		n := bytes.IndexByte(b[i:], '\n')
		if n < 0 {
			return 0
		}
		i += n + 1
		switch {
		case bytes.HasPrefix(b[i:], []byte("\n")):
			return i + 1
		case bytes.HasPrefix(b[i:], []byte("\r\n")):
			return i + 2
		}
	}
}

// Next returns the next piece of the body: all that has come, at least a byte.
// It is valid until the next call. The error is io.EOF after the last piece of
// a whole body, and io.ErrUnexpectedEOF when the connection was closed before.
func (a *Answer) Next() ([]byte, error) {
	if len(a.rest) > 0 {
		piece := a.rest
		a.rest = nil
		return piece, nil
	}
	for a.err == nil {
		if a.broken != nil {
			a.fail(a.broken)
			break
		}
		if a.body.over() {
			a.finish()
			break
		}
		c := a.conn
		if len(c.unread) == 0 {
			if err := c.fill(); err != nil {
				a.fail(err)
				break
			}
		}
		data, rest, err := a.body.take(c.unread)
		// The data before the fault lie in the buffer, which fail gives back.
		c.unread, a.broken = rest, err
		if len(data) > 0 {
			return data, nil
		}
	}
	return nil, a.err
}

// Read makes an Answer an io.Reader.
func (a *Answer) Read(to []byte) (int, error) {
	if len(a.rest) == 0 {
		piece, err := a.Next()
		if err != nil {
			return 0, err
		}
		a.rest = piece
	}
	n := copy(to, a.rest)
	a.rest = a.rest[n:]
	return n, nil
}

// finish ends an answer whose body is complete: its connection can be used
// again, unless something follows that was not asked for.
func (a *Answer) finish() {
	a.err = io.EOF
	c := a.conn
	reusable := a.reusable && len(c.unread) == 0
	c.giveBack()
	if stopped := a.stop(); stopped && reusable && c.adopt() == nil {
		c.link.putIdle(c)
		return
	}
	c.close()
}

// fail ends an answer that is incomplete.
func (a *Answer) fail(err error) {
	if errors.Is(err, io.EOF) {
		if a.body.closed() {
			a.finish()
			return
		}
		err = io.ErrUnexpectedEOF
	}
	a.err = err
	a.conn.giveBack()
	a.stop()
	a.conn.close()
}

// Close gives the answer up, if it has not been read to its end.
func (a *Answer) Close() {
	a.rest = nil
	if a.err == nil {
		a.fail(errors.New("the answer was closed"))
	}
}
