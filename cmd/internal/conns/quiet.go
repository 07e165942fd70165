package conns

import (
	"container/list"
	"net"
	"net/http"
	"sync"
	"time"
)

// quietAfter is how long a connection without a request is left alone even if
// its place is wanted: a client that has just connected is about to ask.
const quietAfter = time.Second

// quiet are the members without a request, by how long they have had none.
type quiet struct {
	mu  sync.Mutex
	all list.List // of *member
}

func (q *quiet) add(m *member, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if m.place == nil && !m.left.Load() {
		m.since, m.place = now, q.all.PushBack(m)
	}
}

// remove says whether it was one of them.
func (q *quiet) remove(m *member) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.take(m)
}

func (q *quiet) take(m *member) bool {
	if m.place == nil {
		return false
	}
	q.all.Remove(m.place)
	m.place = nil
	return true
}

// endOne closes the one that has been quiet longest; false when all are busy.
func (q *quiet) endOne(now time.Time) bool {
	m := q.takeOldest(now)
	if m == nil {
		return false
	}
	m.Close()
	return true
}

// takeOldest takes it out, so that a request that begins there from now on finds
// its connection closed, as one that crosses with any end of an idle connection.
func (q *quiet) takeOldest(now time.Time) *member {
	q.mu.Lock()
	defer q.mu.Unlock()
	first := q.all.Front()
	if first == nil || now.Sub(first.Value.(*member).since) < quietAfter {
		return nil
	}
	m := first.Value.(*member)
	q.take(m)
	return m
}

// Track is part of an http.Server's ConnState: it tells which connections
// serve a request.
func (c *Crowd) Track(conn net.Conn, state http.ConnState) {
	m := memberOf(conn)
	if m == nil {
		return
	}
	switch state {
	case http.StateActive:
		c.quiet.remove(m)
	case http.StateIdle, http.StateNew: // some come back as new ones
		c.quiet.add(m, time.Now())
	}
}

// memberOf finds the member under what has been put around it: TLS, framing.
func memberOf(conn net.Conn) *member {
	for conn != nil {
		if m, ok := conn.(*member); ok {
			return m
		}
		wrapped, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			return nil
		}
		conn = wrapped.NetConn()
	}
	return nil
}
