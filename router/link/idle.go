package link

import "time"

// Idle is how long an unused connection to an engine is kept. uvicorn closes
// its side after 5 s (VLLM_HTTP_TIMEOUT_KEEP_ALIVE); a request sent into that
// closing would be lost.
const Idle = 4 * time.Second

// maxIdle is the number of unused connections kept: a burst of turns leaves
// that many behind, for the next burst.
const maxIdle = 64

// idle are a Link's unused connections, guarded by its lock.
type idle struct {
	conns  []idleConn // the longest unused first
	timer  *time.Timer
	closed bool
}

type idleConn struct {
	*conn
	since time.Time
}

// takeIdle returns the connection that was used last, nil when there is none.
func (l *Link) takeIdle() *conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := len(l.idle.conns) - 1
	if last < 0 {
		return nil
	}
	c := l.idle.conns[last]
	l.idle.conns = l.idle.conns[:last]
	if time.Since(c.since) >= Idle { // the timer is late
		c.cut()
		return nil
	}
	return c.conn
}

// putIdle keeps a connection whose answer has been read to its end.
func (l *Link) putIdle(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.idle.closed || len(l.idle.conns) == maxIdle {
		c.cut()
		return
	}
	l.idle.conns = append(l.idle.conns, idleConn{c, time.Now()})
	if l.idle.timer == nil {
		l.idle.timer = time.AfterFunc(Idle, l.expire)
	} else if len(l.idle.conns) == 1 {
		l.idle.timer.Reset(Idle)
	}
}

// expire closes what has been unused for too long.
func (l *Link) expire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, n := time.Now(), 0
	for n < len(l.idle.conns) && now.Sub(l.idle.conns[n].since) >= Idle {
		l.idle.conns[n].cut()
		n++
	}
	rest := copy(l.idle.conns, l.idle.conns[n:])
	clear(l.idle.conns[rest:])
	l.idle.conns = l.idle.conns[:rest]
	if rest > 0 && !l.idle.closed {
		l.idle.timer.Reset(Idle - now.Sub(l.idle.conns[0].since))
	}
}

// closeIdle closes the unused connections.
func (l *Link) closeIdle() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.idle.conns {
		c.cut()
	}
	l.idle.conns = nil
}

// Close closes the unused connections and keeps none from now on; requests in
// flight go on.
func (l *Link) Close() {
	l.mu.Lock()
	l.idle.closed = true
	if l.idle.timer != nil {
		l.idle.timer.Stop()
	}
	l.mu.Unlock()
	l.closeIdle()
}
