// Package conns keeps the API's connections in hand: crowd.go bounds how many
// are open, quiet.go says which of them can go first, open.go counts them and
// waits for their end.
package conns

import (
	"bufio"
	"container/list"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// A request needs two file descriptors: its client's connection and its
// engine's. When a process has none left it can do nothing any more, not even
// answer `warden status`. So the API takes only as many connections as leave
// room for everything else, and refuses the next ones in words.
const (
	descriptorsKept = 96 // for the control socket, shims, logs, and connections being refused
	fewestClients   = 16
	refusalsAtOnce  = 32 // beyond these, connections are closed without a word
	refusalLimit    = 2 * time.Second
	maxRefusedHead  = 64 << 10 // of the header that is read before a refusal, in bytes
	crowdWarnEvery  = 10 * time.Second
)

// Limit is how many API connections may be open at once.
func Limit() int64 {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return fewestClients
	}
	const plenty = 1 << 20 // also stands for "unlimited"
	return max(fewestClients, (int64(min(limit.Cur, plenty))-descriptorsKept)/2)
}

// Crowd is a listener that hands out a bounded number of connections. When all
// are taken, a new one gets the place of the one that has been quiet longest:
// clients that open connections and say nothing keep nobody out.
type Crowd struct {
	net.Listener
	limit    int64
	open     atomic.Int64
	refusing atomic.Int64
	log      *slog.Logger
	warned   time.Time // of Accept alone
	quiet    quiet
}

// NewCrowd bounds the connections of l. Its Track must be told of them.
func NewCrowd(l net.Listener, limit int64, log *slog.Logger) *Crowd {
	return &Crowd{Listener: l, limit: limit, log: log}
}

// Accept waits for a connection that has room.
func (c *Crowd) Accept() (net.Conn, error) {
	for {
		conn, err := c.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if c.open.Add(1) <= c.limit || c.quiet.endOne(time.Now()) {
			m := &member{Conn: conn, of: c}
			c.quiet.add(m, time.Now())
			return m, nil
		}
		c.open.Add(-1)
		if now := time.Now(); now.Sub(c.warned) > crowdWarnEvery {
			c.warned = now
			c.log.Warn("connections are refused: more would need more open files than the limit allows", "connections", c.limit)
		}
		if c.refusing.Add(1) > refusalsAtOnce {
			c.refusing.Add(-1)
			conn.Close()
			continue
		}
		go func() {
			defer c.refusing.Add(-1)
			refuse(conn)
		}()
	}
}

// crowdRefusal is understood by the clients of both APIs.
const crowdRefusal = `{"type":"error","error":{"type":"overloaded_error","code":"too_many_connections",` +
	`"message":"warden has as many connections as its limit of open files allows: raise it (ulimit -n) or use fewer"}}`

// refuse answers 503 to one request. It reads the request first: a connection
// closed with something unread is reset, and the answer lost.
func refuse(conn net.Conn) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(refusalLimit))
	in := &io.LimitedReader{R: conn, N: maxRefusedHead}
	req, err := http.ReadRequest(bufio.NewReaderSize(in, 4<<10))
	if err != nil {
		return // no request, or not in time
	}
	in.N = math.MaxInt64 // the body is not kept
	_, _ = io.Copy(io.Discard, req.Body)
	resp := http.Response{
		StatusCode: http.StatusServiceUnavailable, ProtoMajor: 1, ProtoMinor: 1, Close: true,
		Header: http.Header{"Content-Type": {"application/json"}, "Retry-After": {"1"}},
		Body:   io.NopCloser(strings.NewReader(crowdRefusal)), ContentLength: int64(len(crowdRefusal)),
	}
	_ = resp.Write(conn) // the client may be gone
}

// member is a connection of a crowd.
type member struct {
	net.Conn
	of   *Crowd
	left atomic.Bool
	// Guarded by of.quiet: its place there, nil while it serves a request.
	place *list.Element
	since time.Time
}

// NetConn is the connection underneath.
func (m *member) NetConn() net.Conn { return m.Conn }

// Close makes room for another connection.
func (m *member) Close() error {
	if !m.left.Swap(true) {
		m.of.open.Add(-1)
		m.of.quiet.remove(m)
	}
	return m.Conn.Close()
}
