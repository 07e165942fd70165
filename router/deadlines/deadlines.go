// Package deadlines bounds how long a client may send or read nothing, in
// HTTP/1 and HTTP/2 alike.
//
// They differ in what a deadline for writes is. HTTP/1's matters to a write
// under way alone, so it is moved on once a second at most: that costs as much
// as a small write. HTTP/2's ends the stream when it is reached, also while the
// engine is silent and nothing is written, so there a timer of our own runs
// during each write.
package deadlines

import (
	"errors"
	"net"
	"net/http"
	"sync"
	"time"
)

// Client is the deadlines of one request. Make one with New and call Done when
// its handler returns: net/http's writers must not be touched from then on, and
// those of HTTP/2 panic.
type Client struct {
	control  control
	patience time.Duration
	streams  bool      // HTTP/2
	limit    time.Time // of writes, over HTTP/1; the handler's own

	mu      sync.Mutex
	done    bool
	reading bool // the deadline for reads may be moved on
	writing bool // the one for writes, too
	stalled bool
	timer   *time.Timer // over HTTP/2
	since   time.Time   // beginning of the write under way; zero: none is
}

// control is what net/http lets a handler do with its connection.
type control interface {
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
	Flush() error
}

// Own goes on with a connection that was taken away from net/http.
func (c *Client) Own(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.control, c.limit = unbuffered{conn}, time.Time{} // net/http has lifted its deadlines
	if !c.writing {
		_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
	}
}

type unbuffered struct{ net.Conn }

func (unbuffered) Flush() error { return nil }

// New is for one request and its answer.
func New(w http.ResponseWriter, req *http.Request, patience time.Duration) *Client {
	return &Client{control: http.NewResponseController(w), patience: patience, streams: req.ProtoMajor >= 2,
		reading: true, writing: true}
}

// Errors of the controller are not looked at: a test's writer has no deadlines,
// net/http's have.

// ReadBy moves the deadline for reads on.
func (c *Client) ReadBy(limit time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reading && !c.done {
		_ = c.control.SetReadDeadline(limit)
	}
}

// EndReads ends reads, those under way and later ones. Any goroutine may call
// it.
func (c *Client) EndReads() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reading && !c.done {
		_ = c.control.SetReadDeadline(time.Now())
	}
	c.reading = false
}

// HaveRead is called when the handler reads no more: from then on EndReads does
// nothing, since it is net/http that reads, to see whether the client leaves.
func (c *Client) HaveRead() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reading = false
}

// EndWrites ends writes after a while. Any goroutine may call it.
func (c *Client) EndWrites(within time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.writing = false; !c.done {
		_ = c.control.SetWriteDeadline(time.Now().Add(within))
	}
}

// BeginWrite is called before the handler writes, EndWrite after it.
func (c *Client) BeginWrite() {
	now := time.Now()
	limit := now.Add(c.patience)
	if !c.streams && limit.Sub(c.limit) <= time.Second {
		return
	}
	c.limit = limit
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !c.writing:
	case !c.streams:
		_ = c.control.SetWriteDeadline(limit)
	case c.timer == nil:
		c.since, c.timer = now, time.AfterFunc(c.patience, c.stall)
	default:
		c.since = now
		c.timer.Reset(c.patience)
	}
}

// Flush sends what has been written.
func (c *Client) Flush() error {
	err := c.control.Flush()
	if errors.Is(err, http.ErrNotSupported) {
		return nil // a test's recorder
	}
	return err
}

// EndWrite is called when the handler has written.
func (c *Client) EndWrite() {
	if !c.streams {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.since = time.Time{}
	if c.timer != nil {
		c.timer.Stop()
	}
}

// stall ends a write that has taken too long. The timer may have run out just
// as a write ended, and another one may have begun.
func (c *Client) stall() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done || c.since.IsZero() || time.Since(c.since) < c.patience {
		return
	}
	c.stalled = true
	_ = c.control.SetWriteDeadline(time.Now().Add(-time.Second))
}

// Stalled reports whether a write over HTTP/2 was ended because the client read
// nothing; over HTTP/1 its error says so.
func (c *Client) Stalled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stalled
}

// Done ends the use of the connection. What net/http still holds of the answer
// must go out in time, too.
func (c *Client) Done() {
	c.EndWrite()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.streams && c.writing && !c.done {
		_ = c.control.SetWriteDeadline(time.Now().Add(c.patience))
	}
	c.done = true
}
