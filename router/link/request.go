package link

import (
	"bytes"
	"errors"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"
)

// Small bodies are sent in one piece with their head, large ones with writev.
const joined = 16 << 10

// stalled is how long an engine may take nothing of a request before we look
// whether it has answered already: one that refuses a body need not read it.
const stalled = time.Second

// heads are buffers for the heads of requests and small bodies.
var heads = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}

// send writes a request. whole is false when the engine did not take all of it
// but has answered.
func (c *conn) send(req *Request) (whole bool, err error) {
	buffer := heads.Get().(*[]byte)
	defer heads.Put(buffer)
	head, err := req.appendHead((*buffer)[:0], c.link.host)
	if *buffer = head[:0]; err != nil {
		return false, err
	}
	if req.size() <= joined {
		for _, part := range req.Body {
			head = append(head, part...)
		}
		*buffer = head[:0]
		_, err = c.write(&net.Buffers{head})
	} else {
		err = c.sendLarge(append(net.Buffers{head}, req.Body...))
	}
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, errAnswered), c.readable():
		return false, nil
	}
	return false, err
}

var errAnswered = errors.New("the engine has answered before it read the request")

// sendLarge writes what may not fit into the connection's buffers. Mostly it
// does, and two changes of a deadline cost more than finding that out.
func (c *conn) sendLarge(parts net.Buffers) error {
	if err := c.writeSome(&parts); err != nil || len(parts) == 0 {
		return err
	}
	for {
		_ = c.SetWriteDeadline(time.Now().Add(stalled))
		n, err := c.write(&parts)
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			_ = c.SetWriteDeadline(time.Time{})
			return err
		}
		if n == 0 && c.readable() {
			return errAnswered
		}
	}
}

// size is the length of the body.
func (r *Request) size() (n int) {
	for _, part := range r.Body {
		n += len(part)
	}
	return n
}

// appendHead appends the request's head. No part of it may hold a line end:
// net/http lets none in, and this does not rely on it.
func (r *Request) appendHead(b []byte, host string) ([]byte, error) {
	b = append(append(append(b, r.Method...), ' '), r.Target...)
	b = append(append(b, " HTTP/1.1\r\nHost: "...), host...)
	b = append(b, "\r\n"...)
	lines := 3
	for name, values := range r.Header {
		for _, value := range values {
			lines++
			b = append(append(append(append(b, name...), ": "...), value...), "\r\n"...)
		}
	}
	size := r.size()
	if size > 0 || r.Method != http.MethodGet && r.Method != http.MethodHead {
		b = strconv.AppendInt(append(b, "Content-Length: "...), int64(size), 10)
		b = append(b, "\r\n"...)
		lines++
	}
	b = append(b, "\r\n"...)
	if bytes.Count(b, []byte{'\n'}) != lines {
		return b, errors.New("a header of the request holds a line end")
	}
	return b, nil
}
