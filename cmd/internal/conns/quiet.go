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

func (q *quiet) remove(m *member) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if m.place != nil {
		q.all.Remove(m.place)
		m.place = nil
	}
}

// endOne closes the one that has been quiet longest; false when all are busy.
func (q *quiet) endOne(now time.Time) bool {
	q.mu.Lock()
	first := q.all.Front()
	if first == nil || now.Sub(first.Value.(*member).since) < quietAfter {
		q.mu.Unlock()
		return false
	}
	q.mu.Unlock()
	first.Value.(*member).Close()
	return true
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
