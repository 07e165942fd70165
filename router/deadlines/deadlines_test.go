package deadlines

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// writer notes the deadlines that are set, as times from now.
type writer struct {
	http.ResponseWriter
	reads, writes []time.Duration
}

func (w *writer) SetReadDeadline(t time.Time) error {
	w.reads = append(w.reads, time.Until(t))
	return nil
}

func (w *writer) SetWriteDeadline(t time.Time) error {
	w.writes = append(w.writes, time.Until(t))
	return nil
}

const patience = 30 * time.Second

func newClient(major int) (*Client, *writer) {
	w := &writer{ResponseWriter: httptest.NewRecorder()}
	return New(w, &http.Request{ProtoMajor: major}, patience), w
}

func same(t *testing.T, what string, got []time.Duration, want ...time.Duration) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func write(c *Client, takes time.Duration) {
	c.BeginWrite()
	<-time.After(takes)
	c.EndWrite()
}

func TestHTTP1MovesTheDeadlineOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, w := newClient(1)
		for range 5 {
			write(c, 400*time.Millisecond)
		}
		c.Done()
		same(t, "writes", w.writes, patience, patience) // at 0 and 1.2 s
	})
}

func TestHTTP2LeavesAQuietStreamAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, w := newClient(2)
		for range 3 {
			write(c, time.Second)
			<-time.After(2 * patience)
		}
		same(t, "writes", w.writes)
		write(c, patience+time.Second)
		same(t, "a write that takes too long", w.writes, -time.Second)
		if !c.Stalled() {
			t.Error("the client is not said to have stalled")
		}
		c.Done() // what is still in buffers
		same(t, "at the end", w.writes, -time.Second, patience)
	})
}

// An order to end is not overruled by a handler that goes on.
func TestEndsStay(t *testing.T) {
	for _, major := range []int{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			c, w := newClient(major)
			c.EndReads()
			c.ReadBy(time.Now().Add(patience))
			same(t, "reads", w.reads, 0)
			c.EndWrites(time.Second)
			write(c, 2*patience)
			c.Done()
			same(t, "writes", w.writes, time.Second)
		})
	}
}

// Once the handler has read all, net/http's own reading is left alone.
func TestReadsThatAreOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, w := newClient(1)
		c.ReadBy(time.Now().Add(patience))
		c.HaveRead()
		c.EndReads()
		c.ReadBy(time.Now().Add(2 * patience))
		same(t, "reads", w.reads, patience)
	})
}

// The writer of an HTTP/2 request panics once its handler has returned.
func TestNothingIsTouchedAfterTheHandler(t *testing.T) {
	for _, major := range []int{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			c, w := newClient(major)
			write(c, 0)
			c.Done()
			w.reads, w.writes = nil, nil
			c.ReadBy(time.Now())
			c.EndReads()
			c.EndWrites(time.Second)
			c.Done()
			<-time.After(2 * patience)
			same(t, "reads", w.reads)
			same(t, "writes", w.writes)
		})
	}
}
