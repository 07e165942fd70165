package benchpath

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// events reads a stream of server-sent events and notes when each arrived.
type events struct {
	messages int     // data messages, of which
	pieces   int     // hold text with the time of its sending
	delays   []int64 // of the pieces, in nanoseconds
	done     bool    // the stream's own end was there
	rest     []byte  // of a message that has not arrived whole
}

var (
	messageEnd  = []byte("\n\n")
	dataField   = []byte("data:")
	doneMessage = []byte("data: [DONE]")
)

// feed takes what arrived at the time now and returns how many messages it
// completed.
func (e *events) feed(arrived []byte, now int64) (completed int) {
	before := e.messages
	if len(e.rest) > 0 {
		e.rest = append(e.rest, arrived...)
		arrived = e.rest
	}
	for {
		end := bytes.Index(arrived, messageEnd)
		if end < 0 {
			break
		}
		e.message(arrived[:end], now)
		arrived = arrived[end+len(messageEnd):]
	}
	e.rest = append(e.rest[:0], arrived...)
	return e.messages - before
}

func (e *events) message(m []byte, now int64) {
	if !bytes.HasPrefix(m, dataField) { // a comment
		return
	}
	e.messages++
	if sent, ok := stampIn(m); ok {
		e.pieces++
		e.delays = append(e.delays, now-sent)
	}
	e.done = e.done || bytes.Equal(m, doneMessage)
}

// stampIn finds the time in a piece of text.
func stampIn(m []byte) (nanoseconds int64, ok bool) {
	at := bytes.IndexByte(m, stampMark)
	if at < 0 || len(m)-at-1 < stampDigits {
		return 0, false
	}
	var n int64
	for _, c := range m[at+1 : at+1+stampDigits] {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, true
}

// readBuffer is more than a proxy passes on at once.
const readBuffer = 32 << 10

// readAll follows a stream to its end, tells arrived of every message, and
// fails unless the stream is whole.
func (e *events) readAll(body io.Reader, buffer []byte, c clock, want int, arrived func(messages int)) error {
	for {
		n, err := body.Read(buffer)
		if n > 0 {
			if m := e.feed(buffer[:n], c.now()); m > 0 {
				arrived(m)
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			if !e.done || e.pieces != want {
				return fmt.Errorf("a stream ended after %d of %d pieces, its own end seen: %v", e.pieces, want, e.done)
			}
			return nil
		case err != nil:
			return fmt.Errorf("a stream broke after %d of %d pieces: %w", e.pieces, want, err)
		}
	}
}
