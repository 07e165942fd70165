package shim

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// hub keeps the shim's clients informed. Nothing in it waits for a client: a client that does not read loses lines,
// never notices.
type hub struct {
	orders chan<- request
	closed chan struct{} // nobody takes orders any more

	followed chan struct{} // closed when the first client follows
	first    sync.Once

	mu      sync.Mutex
	state   State
	kept    []Line // ring
	next    int
	clients map[*client]struct{}
	serving sync.WaitGroup
}

func newHub(state State, orders chan<- request) *hub {
	return &hub{
		orders: orders, closed: make(chan struct{}), followed: make(chan struct{}),
		state: state, clients: make(map[*client]struct{}),
	}
}

// setState is what a client that comes now is told first.
func (h *hub) setState(s State) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.state = s
}

// line keeps a line and passes it to the clients that follow.
func (h *hub) line(l Line) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !l.Redraw {
		if len(h.kept) < keptLines {
			h.kept = append(h.kept, l)
		} else {
			h.kept[h.next] = l
			h.next = (h.next + 1) % keptLines
		}
	}
	for c := range h.clients {
		if c.follows {
			c.sendLine(l)
		}
	}
}

// notice passes a notice to every client.
func (h *hub) notice(m message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for c := range h.clients {
		c.send(m)
	}
}

func (h *hub) clientCount() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.clients)
}

// serve accepts clients until the listener is closed.
func (h *hub) serve(l net.Listener) {
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of file descriptors: the waiting client is served when there are some again
			time.Sleep(100 * time.Millisecond)
			continue
		}
		if err := samePeer(conn); err != nil {
			conn.Close()
			continue
		}
		h.attach(conn)
	}
}

func (h *hub) attach(conn net.Conn) {
	c := &client{conn: conn}
	c.wake = sync.NewCond(&c.mu)
	h.mu.Lock()
	h.clients[c] = struct{}{}
	state := h.state
	c.send(message{Kind: msgState, State: &state})
	h.mu.Unlock()
	h.serving.Go(c.write)
	h.serving.Go(func() { h.read(c) })
}

// read takes a client's requests until it leaves.
func (h *hub) read(c *client) {
	defer func() {
		h.mu.Lock()
		delete(h.clients, c)
		h.mu.Unlock()
		c.end()
	}()
	in := json.NewDecoder(bufio.NewReader(c.conn))
	for {
		var r request
		if in.Decode(&r) != nil {
			return
		}
		if r.Op == opFollow {
			h.follow(c, r.Tail)
			continue
		}
		select {
		case h.orders <- r:
		case <-h.closed:
		}
	}
}

// follow sends the last n kept lines and lets the following ones come, without a gap.
func (h *hub) follow(c *client, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	have := len(h.kept)
	for i := have - min(n, have); i < have; i++ {
		l := h.kept[(h.next+i)%have] // a copy: its place in the ring will be written again
		c.send(message{Kind: msgLine, Line: &l})
	}
	c.follows = true
	h.first.Do(func() { close(h.followed) })
}

// close sends what is queued, waits at most limit for slow clients, and ends all connections.
func (h *hub) close(limit time.Duration) {
	close(h.closed)
	h.mu.Lock()
	for c := range h.clients {
		// The read side is not touched: it ends when end closes the connection.
		c.conn.SetWriteDeadline(time.Now().Add(limit)) // fails only on a closed connection
		c.end()
	}
	h.mu.Unlock()
	h.serving.Wait()
}

// client is one connection.
type client struct {
	conn    net.Conn
	follows bool // guarded by hub.mu

	mu     sync.Mutex
	wake   *sync.Cond
	queue  []message
	lines  int // of queue
	ending bool
}

// lineBacklog is how many lines a client may be behind before it loses some.
const lineBacklog = 4096

func (c *client) send(m message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue = append(c.queue, m)
	c.wake.Signal()
}

func (c *client) sendLine(l Line) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lines >= lineBacklog {
		return
	}
	c.lines++
	c.queue = append(c.queue, message{Kind: msgLine, Line: &l})
	c.wake.Signal()
}

// end lets write finish the queue and close the connection.
func (c *client) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ending = true
	c.wake.Signal()
}

// write sends the queue until end, or until the client is gone.
func (c *client) write() {
	defer c.conn.Close() // also ends the reading side
	out := bufio.NewWriter(c.conn)
	enc := json.NewEncoder(out)
	for {
		c.mu.Lock()
		for len(c.queue) == 0 && !c.ending {
			c.wake.Wait()
		}
		batch := c.queue
		c.queue, c.lines = nil, 0
		c.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		for _, m := range batch {
			if enc.Encode(m) != nil {
				return
			}
		}
		if out.Flush() != nil {
			return
		}
	}
}

// samePeer refuses other users: whoever may write here may end the engine. The socket's mode already says so; some
// file systems ignore it.
func samePeer(conn net.Conn) error {
	uc, ok := conn.(*net.UnixConn)
	if !ok {
		return fmt.Errorf("not a unix socket: %T", conn)
	}
	raw, err := uc.SyscallConn()
	if err != nil {
		return err
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return err
	}
	if credErr != nil {
		return credErr
	}
	if int(cred.Uid) != os.Getuid() && cred.Uid != 0 {
		return fmt.Errorf("user %d may not control this engine", cred.Uid)
	}
	return nil
}
