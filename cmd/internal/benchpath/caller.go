package benchpath

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// caller is one client with a connection that it keeps, as an agent does. It
// speaks HTTP itself: no goroutine and no buffer stands between the socket and
// its clock.
type caller struct {
	host    string
	session string
	clock   clock
	conn    net.Conn
	reader  *bufio.Reader
	buffer  []byte
}

// answerLimit bounds one answer; the longest stream takes 10 s.
const answerLimit = time.Minute

func newCaller(address, session string, c clock) (*caller, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	return &caller{host: u.Host, session: session, clock: c, buffer: make([]byte, readBuffer)}, nil
}

func (c *caller) close() {
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
}

// post sends a body. firstByte is the time from the beginning of the request,
// on an open connection, to the first byte of the answer.
func (c *caller) post(body []byte) (resp *http.Response, firstByte time.Duration, err error) {
	if c.conn == nil {
		conn, err := net.DialTimeout("tcp", c.host, answerLimit)
		if err != nil {
			return nil, 0, err
		}
		c.conn, c.reader = conn, bufio.NewReaderSize(conn, readBuffer)
	}
	if err := c.conn.SetDeadline(time.Now().Add(answerLimit)); err != nil {
		return nil, 0, err
	}
	var head strings.Builder
	fmt.Fprintf(&head, "POST /v1/chat/completions HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAccept: */*\r\n"+
		"User-Agent: bench-path\r\nX-Session-ID: %s\r\nX-SMG-Routing-Key: %s\r\nContent-Length: %d\r\n\r\n", c.host, c.session, c.session, len(body))
	began := c.clock.now()
	both := net.Buffers{[]byte(head.String()), body}
	if _, err := both.WriteTo(c.conn); err != nil {
		return nil, 0, err
	}
	if _, err := c.reader.Peek(1); err != nil {
		return nil, 0, err
	}
	firstByte = time.Duration(c.clock.now() - began)
	resp, err = http.ReadResponse(c.reader, &http.Request{Method: http.MethodPost})
	return resp, firstByte, err
}

// call is one request and its whole answer. After a failure the next call
// begins with a new connection.
func (c *caller) call(body []byte, s script, stream bool, arrived func(messages int)) (took outcome) {
	resp, firstByte, err := c.post(body)
	took.firstByte = firstByte
	if err == nil {
		err = c.read(resp, s, stream, arrived, &took)
		_ = resp.Body.Close()
	}
	if err != nil {
		took.err = err
		c.close()
	} else if resp.Close {
		c.close()
	}
	return took
}

func (c *caller) read(resp *http.Response, s script, stream bool, arrived func(int), took *outcome) error {
	switch {
	case resp.StatusCode != http.StatusOK:
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 300))
		return fmt.Errorf("%s: %s", resp.Status, text)
	case !stream:
		_, err := io.Copy(io.Discard, resp.Body)
		return err
	}
	e := events{delays: make([]int64, 0, s.Events)}
	err := e.readAll(resp.Body, c.buffer, c.clock, s.Events, arrived)
	took.delays = e.delays
	return err
}

// outcome is what one request came to.
type outcome struct {
	firstByte time.Duration
	delays    []int64 // nanoseconds
	err       error
}
