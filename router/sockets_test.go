package router

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lm-warden/warden/router/framing"
	"github.com/lm-warden/warden/router/keepalive"
	"github.com/lm-warden/warden/router/socket"
)

// Streams take another way over real sockets than in memory, where most tests
// are. Here are both ways, between engines and clients whose every byte a test
// decides on.

// patience bounds what must happen by itself, on a machine with much to do.
const patience = 30 * time.Second

// network is what lies between the client, the Router and the engine: "memory",
// or the kind of the engine's socket; clients then come over TCP.
type network string

const (
	inMemory network = "memory"
	overUnix network = "unix"
	overTCP  network = "tcp"
)

// script plays an engine on one of its connections, from its beginning.
type script func(c *engineConn)

// engineConn is a connection of an engine's.
type engineConn struct {
	net.Conn
	number int64 // of this connection, from 1
	in     *bufio.Reader
	front  *front
}

// request reads the next request; nil when the connection has ended.
func (c *engineConn) request() *http.Request {
	req, err := http.ReadRequest(c.in)
	if err != nil {
		return nil
	}
	if _, err := io.Copy(io.Discard, req.Body); err != nil {
		return nil
	}
	return req
}

func (c *engineConn) say(parts ...string) (ok bool) {
	_, err := io.WriteString(c, strings.Join(parts, ""))
	return err == nil
}

const (
	streamHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
	lastPiece  = "0\r\n\r\n"
)

// piece is one chunk of a body.
func piece(data string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(data), data) }

// pieces are several, one for each of data.
func pieces(data ...string) string {
	var all strings.Builder
	for _, d := range data {
		all.WriteString(piece(d))
	}
	return all.String()
}

// taken waits until the other side has what was said: over a unix socket, until
// it has read it, and over TCP until its system has said that it got it.
func (c *engineConn) taken() {
	file, ok := c.Conn.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := file.SyscallConn()
	if err != nil {
		return
	}
	for end := time.Now().Add(patience); time.Now().Before(end); runtime.Gosched() {
		left := 0
		if raw.Control(func(fd uintptr) { left, _ = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) }) != nil || left == 0 {
			return
		}
	}
}

// gone waits for the end of the connection; nothing else may come.
func (c *engineConn) gone() error {
	if n, err := c.in.Read(make([]byte, 1)); n > 0 {
		return fmt.Errorf("the engine got more: %v", err)
	}
	return nil
}

// reset ends the connection without a proper end.
func (c *engineConn) reset() {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

// front is a Router with its server, one engine behind it, and its clients.
type front struct {
	t       *testing.T
	network network
	router  *Router
	server  *http.Server
	address string // for clients
	memory  memory
	ended   chan Record
	meet    sync.Map // of chan struct{}, by name

	mu       sync.Mutex
	failures []string
	conns    []net.Conn // of the engine
}

// newFront serves a Router over a network, with an engine that plays s.
func newFront(t *testing.T, n network, o Options, s script) *front {
	t.Helper()
	f := &front{t: t, network: n, ended: make(chan Record, 1024)}
	address := f.engine(s)
	o.OnFinish = func(r Record) { f.ended <- r }
	o.OnFailure = func(id ReplicaID, generation uint64, _ error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.failures = append(f.failures, fmt.Sprintf("%s/%d", id, generation))
	}
	var l net.Listener = f.memory.listen("warden")
	if n == inMemory {
		o.Dial = f.memory.dial
	} else {
		tcp, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l, f.address = socket.Listen(tcp), tcp.Addr().String()
	}
	f.router = New(o)
	if err := f.router.SetModels([]Model{{Alias: testModel}}); err != nil {
		t.Fatal(err)
	}
	if err := f.router.SetReplicas(testModel, []Replica{{ID: "r0", Generation: 1, Address: address, Accepting: true, MaxNumSeqs: 1 << 20}}); err != nil {
		t.Fatal(err)
	}
	f.server = NewServer(f.router)
	var served sync.WaitGroup
	served.Go(func() { _ = keepalive.Serve(f.server, framing.Listen(l)) })
	t.Cleanup(func() {
		f.router.Close()
		_ = f.server.Close()
		served.Wait()
		if held, _ := f.router.Work("r0"); held != 0 {
			t.Errorf("%d turns are held at the end", held)
		}
	})
	return f
}

// engine serves s and returns its address.
func (f *front) engine(s script) (address string) {
	var l net.Listener = f.memory.listen("engine")
	switch f.network {
	case inMemory:
		address = "engine"
	case overUnix:
		path := filepath.Join(f.t.TempDir(), "r0.sock")
		l, address = listen(f.t, "unix", path), "unix:"+path
	case overTCP:
		l = listen(f.t, "tcp", "127.0.0.1:0")
		address = "http://" + l.Addr().String()
	}
	var all sync.WaitGroup
	var number atomic.Int64
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.SetDeadline(time.Now().Add(2 * patience))
			f.mu.Lock()
			f.conns = append(f.conns, c)
			f.mu.Unlock()
			all.Go(func() {
				defer c.Close()
				s(&engineConn{Conn: c, number: number.Add(1), in: bufio.NewReader(c), front: f})
			})
		}
	})
	f.t.Cleanup(func() {
		_ = l.Close()
		f.mu.Lock()
		for _, c := range f.conns {
			_ = c.Close()
		}
		f.mu.Unlock()
		all.Wait()
	})
	return address
}

func listen(t *testing.T, network, address string) net.Listener {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// at is where a client tells the engine to go on.
func (f *front) at(name string) chan struct{} {
	c, _ := f.meet.LoadOrStore(name, make(chan struct{}, 1024))
	return c.(chan struct{})
}

// wait waits for a client to say that it has read so far.
func (c *engineConn) wait(req *http.Request) {
	select {
	case <-c.front.at(req.Header.Get("X-Stream")):
	case <-c.front.t.Context().Done():
	}
}

// record is that of the next request to end.
func (f *front) record() Record {
	f.t.Helper()
	select {
	case r := <-f.ended:
		return r
	case <-time.After(patience):
		f.t.Fatal("no request ends")
		return Record{}
	}
}

// blamed is how often a failure of the engine was reported.
func (f *front) blamed() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.failures)
}

// caller is a client's connection.
type caller struct {
	net.Conn
	t   *testing.T
	in  *bufio.Reader
	raw bytes.Buffer // all that was read
}

// call connects a client.
func (f *front) call() *caller {
	f.t.Helper()
	var conn net.Conn
	var err error
	if f.network == inMemory {
		conn, err = f.memory.dial(f.t.Context(), "warden")
	} else {
		conn, err = net.Dial("tcp", f.address)
	}
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(2 * patience))
	c := &caller{Conn: conn, t: f.t}
	c.in = bufio.NewReader(io.TeeReader(conn, &c.raw))
	return c
}

// asking is a whole request as it is sent.
func asking(path, body string, header ...string) string {
	var head strings.Builder
	fmt.Fprintf(&head, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n", path, len(body))
	for i := 0; i+1 < len(header); i += 2 {
		fmt.Fprintf(&head, "%s: %s\r\n", header[i], header[i+1])
	}
	return head.String() + "\r\n" + body
}

func (c *caller) ask(path, body string, header ...string) {
	c.t.Helper()
	if _, err := io.WriteString(c, asking(path, body, header...)); err != nil {
		c.t.Fatal(err)
	}
}

// answer reads the head of the next answer.
func (c *caller) answer() *http.Response {
	c.t.Helper()
	resp, err := http.ReadResponse(c.in, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp
}

// expect reads as much of an answer as is expected, and no more.
func (c *caller) expect(resp *http.Response, want string) {
	c.t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(resp.Body, got); err != nil || string(got) != want {
		c.t.Fatalf("got %.300q, %v, want %.300q", got[:n], err, want)
	}
}

// begun asks for a stream and reads its head and first event, so that all that
// follows takes the streams' own way.
func (c *caller) begun(path, body, first string, header ...string) *http.Response {
	c.t.Helper()
	c.ask(path, body, header...)
	resp := c.answer()
	c.expect(resp, first)
	return resp
}

// eventually waits for what other goroutines and the system do by themselves.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("in %v it did not come about that %s", patience, what)
		}
	}
}

// descriptors is what this process has open.
func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}
