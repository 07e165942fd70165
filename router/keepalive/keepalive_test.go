package keepalive

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/lm-warden/warden/router/framing"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pipes is a network in memory, whose waits are virtual time's.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return framing.Wrap(trier{c}), nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { p.once.Do(func() { close(p.done) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// trier writes all at once.
type trier struct{ net.Conn }

func (t trier) Control(func(uintptr)) error { return net.ErrClosed }
func (t trier) TryWritev(pieces [][]byte) (int, error) {
	return t.Write(bytes.Join(pieces, nil))
}

// fixture is a server each of whose answers is ended by a goroutine that has
// taken the connection.
type fixture struct {
	*testing.T
	server *http.Server
	net    *pipes
	goOn   chan struct{} // nil: answers end at once

	mu     sync.Mutex
	states map[net.Conn][]http.ConnState
	bodies []string
	served chan error
}

func start(t *testing.T, slow bool, change ...func(*http.Server)) *fixture {
	f := &fixture{T: t, net: newPipes(), states: map[net.Conn][]http.ConnState{}, served: make(chan error, 1)}
	if slow {
		f.goOn = make(chan struct{})
	}
	f.server = &http.Server{Handler: f, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	f.server.ConnState = func(c net.Conn, s http.ConnState) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.states[c] = append(f.states[c], s)
	}
	for _, c := range change {
		c(f.server)
	}
	go func() { f.served <- Serve(f.server, f.net) }()
	t.Cleanup(func() {
		_ = f.server.Close()
		if err := <-f.served; !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			t.Errorf("Serve: %v", err)
		}
	})
	return f
}

func (f *fixture) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		f.Error(err)
	}
	f.mu.Lock()
	f.bodies = append(f.bodies, string(body))
	f.mu.Unlock()
	if !Can(req) {
		_, _ = io.WriteString(w, "not taken")
		return
	}
	w.WriteHeader(200)
	_, _ = io.WriteString(w, "a")
	_ = http.NewResponseController(w).Flush()
	taken, err := Take(w, req)
	if err != nil {
		f.Error(err)
		return
	}
	go func() {
		if f.goOn != nil {
			<-f.goOn
		}
		if _, err := taken.TryWritev([][]byte{[]byte("1\r\nb\r\n"), []byte("0\r\n\r\n")}); err != nil {
			_ = taken.Close()
			return
		}
		taken.GiveBack()
	}()
}

type client struct {
	*testing.T
	net.Conn
	in  *bufio.Reader
	out chan string
}

func (f *fixture) dial() *client {
	here, there := net.Pipe()
	f.net.conns <- there
	c := &client{f.T, here, bufio.NewReader(here), make(chan string, 10)}
	go func() { // a pipe has no room: each write waits for its reader
		for text := range c.out {
			_, _ = io.WriteString(here, text)
		}
	}()
	f.Cleanup(func() {
		_ = here.Close()
		close(c.out)
	})
	return c
}

// say sends text as soon as it is read.
func (c *client) say(text string) {
	if text != "" {
		c.out <- text
	}
}

func (c *client) hears(want string) {
	c.Helper()
	c.hearsOf(c.answer(), want)
}

// answer reads a head.
func (c *client) answer() *http.Response {
	c.Helper()
	resp, err := http.ReadResponse(c.in, nil)
	if err != nil {
		c.Fatalf("no answer: %v", err)
	}
	return resp
}

func (c *client) hearsOf(resp *http.Response, want string) {
	c.Helper()
	body, err := io.ReadAll(resp.Body)
	if err != nil || string(body) != want {
		c.Errorf("%d %q, %v, want %q", resp.StatusCode, body, err, want)
	}
}

// endsWithin waits for the end of the connection, at most as long as limit.
func (c *client) endsWithin(limit time.Duration) (after time.Duration, ended bool) {
	began := time.Now()
	_ = c.SetReadDeadline(began.Add(limit))
	_, err := io.Copy(io.Discard, c.in) // it may end with words
	_ = c.SetReadDeadline(time.Time{})
	return time.Since(began), err == nil
}

func post(body string, header ...string) string {
	return fmt.Sprintf("POST / HTTP/1.1\r\nHost: x\r\n%sContent-Length: %d\r\n\r\n%s", strings.Join(header, ""), len(body), body)
}

func inBubble(t *testing.T, test func(t *testing.T)) { t.Helper(); synctest.Test(t, test) }

// A connection serves one request after the other, whatever of the next has come
// before the end of an answer.
func TestRequestsFollowOneAnother(t *testing.T) {
	tests := map[string]struct {
		first, during, behind string
		bodies                string
	}{
		"one after the other":        {post("1"), "", post("2"), "1 2"},
		"the next comes during":      {post("1"), post("2"), "", "1 2"},
		"the next comes with it":     {post("1") + post("2"), "", "", "1 2"},
		"a head in two halves":       {post("1"), post("22")[:20], post("22")[20:], "1 22"},
		"a byte of it":               {post("1") + post("2")[:1], "", post("2")[1:], "1 2"},
		"a body in two halves":       {post("1"), post("22")[:len(post("22"))-1], "2", "1 22"},
		"a line end behind a body":   {post("1") + "\r\n", "", post("2"), "1 2"},
		"half of it, then the rest":  {post("1") + "\r", "\n", post("2"), "1 2"},
		"line ends when it is back":  {post("1"), "", "\r\n\r\n" + post("2"), "1 2"},
		"chunks":                     {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n1\r\n0\r\n\r\n", "", post("2"), "1 2"},
		"chunks, and the next at it": {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n1\r\n0\r\n\r\n" + post("2"), "", "", "1 2"},
		"no body":                    {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "", post("2"), " 2"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				f := start(t, true)
				c := f.dial()
				go func() {
					c.say(tt.first)
					synctest.Wait()
					c.say(tt.during)
					synctest.Wait()
					f.goOn <- struct{}{}
					synctest.Wait()
					c.say(tt.behind)
					synctest.Wait()
					f.goOn <- struct{}{}
				}()
				c.hears("ab")
				c.hears("ab")
				f.mu.Lock()
				defer f.mu.Unlock()
				if got := strings.Join(f.bodies, " "); got != tt.bodies {
					t.Errorf("bodies %q, want %q", got, tt.bodies)
				}
			})
		})
	}
}

// What ends a connection of net/http's ends one that came back, at the same
// time.
func TestEndsOfAConnectionThatCameBack(t *testing.T) {
	tests := map[string]struct {
		say  string
		want time.Duration
	}{
		"nothing comes":             {"", 2 * time.Minute},
		"line ends only":            {"\r\n", 2 * time.Minute},
		"a byte, and nothing more":  {"P", 10 * time.Second},
		"a head that does not end":  {"POST / HTTP/1.1\r\nHost: x\r\n", 10 * time.Second},
		"a head that is no request": {"x\r\n\r\n", 0},
		"a doubtful end":            {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n", 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				c := start(t, false).dial()
				c.say(post("1"))
				c.hears("ab")
				if after, ended := c.endsWithin(time.Minute); ended {
					t.Fatalf("ended after %s", after)
				}
				left := tt.want
				if tt.want > time.Minute {
					left -= time.Minute
				}
				if tt.say != "" {
					c.say(tt.say)
				}
				if tt.want == 0 {
					resp, err := http.ReadResponse(c.in, nil)
					if err != nil || resp.StatusCode != 400 {
						t.Fatalf("%v, %v", resp, err)
					}
					_, _ = io.Copy(io.Discard, resp.Body)
					return
				}
				if after, ended := c.endsWithin(time.Hour); !ended || after != left {
					t.Errorf("ended %v after %s, want %s", ended, after, left)
				}
			})
		})
	}
}

// Servers without limits have none here either.
func TestNoLimits(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := start(t, false, func(s *http.Server) { s.ReadHeaderTimeout, s.IdleTimeout = 0, 0 }).dial()
		c.say(post("1"))
		c.hears("ab")
		if after, ended := c.endsWithin(time.Hour); ended {
			t.Fatalf("ended after %s", after)
		}
		go func() {
			c.say(post("2")[:9])
			<-time.After(time.Hour)
			c.say(post("2")[9:])
		}()
		c.hears("ab")
	})
}

// Connections that are not to be kept are closed, and those of others are not
// taken.
func TestWhatIsNotKept(t *testing.T) {
	tests := map[string]struct{ request, want string }{
		"the client says so": {post("1", "Connection: close\r\n"), "ab"},
		"HTTP/1.0":           {strings.Replace(post("1"), "HTTP/1.1", "HTTP/1.0", 1), "not taken"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				c := start(t, false).dial()
				c.say(tt.request)
				c.hears(tt.want)
				if after, ended := c.endsWithin(time.Hour); !ended || after != 0 {
					t.Errorf("ended %v after %s", ended, after)
				}
			})
		})
	}
}

// A client that waits for 100 Continue gets it before its body is read.
func TestContinue(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := start(t, false).dial()
		request := post("1", "Expect: 100-continue\r\n")
		for range 2 {
			c.say(request[:len(request)-1])
			if resp, err := http.ReadResponse(c.in, nil); err != nil || resp.StatusCode != 100 {
				t.Fatalf("%v, %v", resp, err)
			}
			c.say("1")
			c.hears("ab")
		}
	})
}

// ConnState is told a whole story: what is hijacked comes back as new or is
// closed, also when the server was closed in the meantime.
func TestStates(t *testing.T) {
	const n, a, h, x = http.StateNew, http.StateActive, http.StateHijacked, http.StateClosed
	tests := map[string]struct {
		do   func(f *fixture, c *client, rest func())
		want []http.ConnState
	}{
		"back and left": {func(f *fixture, c *client, rest func()) {
			f.goOn <- struct{}{}
			rest()
		}, []http.ConnState{n, a, h, n, x}},
		"the client has gone": {func(f *fixture, c *client, rest func()) {
			_ = c.Close()
			f.goOn <- struct{}{}
		}, []http.ConnState{n, a, h, x}},
		"the server is closed": {func(f *fixture, c *client, rest func()) {
			_ = f.server.Close()
			f.goOn <- struct{}{}
			rest() // its taker has it still
			if after, ended := c.endsWithin(time.Hour); !ended || after != 0 {
				c.Errorf("ended %v after %s", ended, after)
			}
		}, []http.ConnState{n, a, h, x}},
		"only the listener is": {func(f *fixture, c *client, rest func()) {
			_ = f.net.Close()
			f.goOn <- struct{}{}
			rest()
			c.say(post("2"))
			resp := c.answer()
			go func() { f.goOn <- struct{}{} }()
			c.hearsOf(resp, "ab")
		}, []http.ConnState{n, a, h, n, a, h, n, x}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				f := start(t, true)
				c := f.dial()
				c.say(post("1"))
				resp := c.answer()
				if _, err := io.ReadFull(resp.Body, make([]byte, 1)); err != nil {
					t.Fatal(err)
				}
				synctest.Wait() // it is taken
				tt.do(f, c, func() { c.hearsOf(resp, "b") })
				_ = c.Close()
				synctest.Wait()
				f.mu.Lock()
				defer f.mu.Unlock()
				for _, got := range f.states {
					if fmt.Sprint(got) != fmt.Sprint(tt.want) {
						t.Errorf("%v, want %v", got, tt.want)
					}
				}
				if len(f.states) != 1 {
					t.Errorf("%d connections", len(f.states))
				}
			})
		})
	}
}
