package link

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAddresses(t *testing.T) {
	for _, address := range []string{"", "r0", "tcp://127.0.0.1:1", "https://127.0.0.1:1", "http://"} {
		if _, err := Dial(t.Context(), address); err == nil || !strings.Contains(err.Error(), "neither unix:/path nor http://host:port") {
			t.Errorf("%q: %v", address, err)
		}
	}
}

func TestHosts(t *testing.T) {
	for address, want := range map[string]string{"unix:/run/r0.sock": "localhost", "http://127.0.0.1:81/": "127.0.0.1:81"} {
		if got := New(address, Dial, nil).Host(); got != want {
			t.Errorf("%s: host %q, want %q", address, got, want)
		}
	}
}

// Only a failure to connect is one: the caller blames the process for it.
func TestNotConnected(t *testing.T) {
	refused := errors.New("refused")
	l := New("unix:/x", func(context.Context, string) (net.Conn, error) { return nil, refused }, nil)
	_, err := l.Send(t.Context(), get)
	if !errors.Is(err, refused) || !NotConnected(fmt.Errorf("replica r0: %w", err)) {
		t.Errorf("a refused connection: %v", err)
	}
	if NotConnected(refused) || NotConnected(nil) {
		t.Error("another error was taken for a refused connection")
	}
}

var (
	get  = &Request{Method: "GET", Target: "/"}
	post = &Request{Method: "POST", Target: "/v1/x?a=b%20c", Header: http.Header{"X-A": {"1", "2"}, "Content-Type": {"application/json"}}, Body: [][]byte{[]byte(`{"a"`), []byte(`:1}`)}}
)

// engine serves raw connections on a unix socket and returns a Link to it.
// serve gets each connection with its number, from 1 on; it is closed when
// serve returns.
func engine(t *testing.T, serve func(n int, c *server)) *Link {
	t.Helper()
	path := filepath.Join(t.TempDir(), "e.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := 1; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serve(n, &server{c, bufio.NewReader(c)})
			_ = c.Close()
		}
	}()
	link := New("unix:"+path, Dial, nil)
	t.Cleanup(func() {
		link.Close()
		_ = l.Close()
		<-done
	})
	return link
}

// server is the engine's side of a connection.
type server struct {
	net.Conn
	in *bufio.Reader
}

// read takes one whole request off the connection; nil when it is closed.
func (s *server) read() *http.Request {
	req, err := http.ReadRequest(s.in)
	if err != nil {
		return nil
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil
	}
	req.Body = io.NopCloser(strings.NewReader(string(body)))
	return req
}

func (s *server) say(text string) { _, _ = io.WriteString(s, text) }

func TestRequest(t *testing.T) {
	for name, body := range map[string]string{"small": `{"a":1}`, "large": strings.Repeat("a", 1<<20), "empty": ""} {
		t.Run(name, func(t *testing.T) {
			got := make(chan *http.Request, 1)
			l := engine(t, func(_ int, s *server) {
				got <- s.read()
				s.say("HTTP/1.1 204 No Content\r\n\r\n")
			})
			req := *post
			req.Body = [][]byte{[]byte(body[:len(body)/2]), []byte(body[len(body)/2:])}
			a, err := l.Send(t.Context(), &req)
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			r := <-got
			sent, _ := io.ReadAll(r.Body)
			if r.Method != "POST" || r.RequestURI != post.Target || r.Host != "localhost" || string(sent) != body || r.ContentLength != int64(len(body)) ||
				fmt.Sprint(r.Header["X-A"]) != "[1 2]" || r.Header.Get("Content-Type") != "application/json" || len(r.TransferEncoding) > 0 {
				t.Errorf("the engine got %+v with %d bytes", r, len(sent))
			}
		})
	}
}

// A line end in a header would begin another header, or another request.
func TestLineEndsInHeadersAreNotSent(t *testing.T) {
	for _, req := range []*Request{
		{Method: "GET", Target: "/ HTTP/1.1\r\nX: y\r\n\r\nGET /"},
		{Method: "GET", Target: "/", Header: http.Header{"A": {"b\nC: d"}}},
		{Method: "GET", Target: "/", Header: http.Header{"A\r\nB": {"c"}}},
	} {
		l := engine(t, func(_ int, s *server) {
			if r := s.read(); r != nil {
				t.Errorf("the engine got %+v", r)
			}
		})
		if _, err := l.Send(t.Context(), req); err == nil || !strings.Contains(err.Error(), "line end") {
			t.Errorf("%+v: %v", req, err)
		}
	}
}

// An engine may close a connection that it thinks unused in the moment in which
// a request is sent on it: the request is sent once more, on a new one. One that
// breaks a new connection is broken.
func TestStaleConnections(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	var connections atomic.Int64
	l := engine(t, func(n int, s *server) {
		connections.Add(1)
		if s.read() != nil && n < 3 {
			s.say(ok) // and close
		}
	})
	send := func() (string, error) {
		a, err := l.Send(t.Context(), post)
		if err != nil {
			return "", err
		}
		defer a.Close()
		body, err := io.ReadAll(a)
		return string(body), err
	}
	for range 2 {
		if body, err := send(); body != "ok" || err != nil {
			t.Fatal(body, err)
		}
	}
	if _, err := send(); err == nil || NotConnected(err) || connections.Load() != 3 {
		t.Errorf("the third engine answered nothing: %v after %d connections", err, connections.Load())
	}
}

// So it is when the closing comes only after the request.
func TestConnectionClosedOnARequest(t *testing.T) {
	var connections atomic.Int64
	l := engine(t, func(_ int, s *server) {
		connections.Add(1)
		if s.read() != nil {
			s.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			s.read() // and close
		}
	})
	for i := range int64(2) {
		a, err := l.Send(t.Context(), post)
		if err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(a); string(body) != "ok" || err != nil || connections.Load() != i+1 {
			t.Errorf("answer %d: %q, %v after %d connections", i+1, body, err, connections.Load())
		}
		a.Close()
	}
}

// The end of the context ends whatever is being waited for, and the engine
// learns it from its connection.
func TestCancel(t *testing.T) {
	for name, sent := range map[string]string{
		"before the head": "", "in the head": "HTTP/1.1 200", "before the body": "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n",
		"in the body": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			gone := make(chan struct{})
			l := engine(t, func(_ int, s *server) {
				defer close(gone)
				if s.read() == nil {
					return
				}
				s.say(sent)
				cancel()
				_, _ = s.in.ReadByte() // until the connection ends
			})
			a, err := l.Send(ctx, post)
			if err == nil {
				_, err = io.ReadAll(a)
				a.Close()
			}
			if err == nil {
				t.Error("a whole answer")
			}
			<-gone
		})
	}
}

// An answer that is given up before its end takes its connection with it: the
// rest of it would be the beginning of the next.
func TestUnreadAnswer(t *testing.T) {
	gone := make(chan struct{})
	l := engine(t, func(_ int, s *server) {
		defer close(gone)
		if s.read() != nil {
			s.say("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello")
			_, _ = s.in.ReadByte()
		}
	})
	a, err := l.Send(t.Context(), post)
	if err != nil {
		t.Fatal(err)
	}
	if piece, err := a.Next(); string(piece) != "hello" || err != nil {
		t.Fatal(string(piece), err)
	}
	a.Close()
	a.Close()
	<-gone
	if _, err := a.Next(); err == nil {
		t.Error("a closed answer goes on")
	}
}

// pipes dials in-memory connections, whose time is the bubble's.
func pipes(serve func(s *server)) Dialer {
	return func(context.Context, string) (net.Conn, error) {
		here, there := net.Pipe()
		go func() {
			defer there.Close()
			serve(&server{there, bufio.NewReader(there)})
		}()
		return here, nil
	}
}

// An engine that refuses a body answers without reading it, and waits.
func TestAnswerBeforeTheBodyIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		l := New("unix:/x", pipes(func(s *server) {
			for {
				if line, err := s.in.ReadString('\n'); err != nil || line == "\r\n" {
					break
				}
			}
			s.say("HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno")
			<-release
		}), nil)
		began := time.Now()
		a, err := l.Send(t.Context(), &Request{Method: "POST", Target: "/", Body: [][]byte{make([]byte, 1<<20), make([]byte, 3<<20)}})
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(a)
		if a.Status != 413 || string(body) != "no" || err != nil || time.Since(began) > 3*stalled {
			t.Errorf("%d %q %v after %v", a.Status, body, err, time.Since(began))
		}
		if len(l.idle.conns) > 0 {
			t.Error("a connection with half a request on it is kept")
		}
		close(release)
	})
}

// An engine that stands still for a while, and then reads on, gets it all.
func TestSlowEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := make(chan int64, 1)
		l := New("unix:/x", pipes(func(s *server) {
			<-time.After(time.Minute)
			req := s.read()
			got <- req.ContentLength
			s.say("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		}), nil)
		defer l.Close()
		a, err := l.Send(t.Context(), &Request{Method: "POST", Target: "/", Body: [][]byte{make([]byte, 1<<20), make([]byte, 3<<20)}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.Next(); err != io.EOF || <-got != 4<<20 {
			t.Error(err)
		}
	})
}

// Unused connections end by themselves, each in its time, and are few.
func TestIdleConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var open atomic.Int64
		l := New("unix:/x", pipes(func(s *server) {
			open.Add(1)
			defer open.Add(-1)
			for s.read() != nil {
				s.say("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			}
		}), nil)
		use := func(n int) {
			var answers []*Answer
			for range n {
				a, err := l.Send(t.Context(), post)
				if err != nil {
					t.Fatal(err)
				}
				answers = append(answers, a)
			}
			for _, a := range answers {
				if _, err := a.Next(); err != io.EOF {
					t.Fatal(err)
				}
			}
			synctest.Wait()
		}
		use(maxIdle + 5)
		if open.Load() != maxIdle {
			t.Errorf("%d connections are kept, want %d", open.Load(), maxIdle)
		}
		<-time.After(Idle / 2)
		use(2)
		<-time.After(Idle/2 + time.Millisecond)
		synctest.Wait()
		if open.Load() != 2 {
			t.Errorf("%d connections are left, want the 2 that were used lately", open.Load())
		}
		<-time.After(Idle / 2)
		synctest.Wait()
		if open.Load() != 0 {
			t.Errorf("%d connections are left", open.Load())
		}
		use(1)
		l.Close()
		synctest.Wait()
		if open.Load() != 0 {
			t.Errorf("%d connections are left by Close", open.Load())
		}
		use(1) // a request that was on its way
		if open.Load() != 0 {
			t.Error("a closed Link keeps connections")
		}
	})
}

// What an engine sends beyond its answer must not become the answer to the next
// request, which may be another client's.
func TestUnaskedForBytes(t *testing.T) {
	first, sent := make(chan struct{}), make(chan struct{})
	l := engine(t, func(n int, c *server) {
		if c.read() == nil {
			return
		}
		if n == 2 {
			c.say("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood")
			return
		}
		c.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		<-first
		c.say("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nstale")
		close(sent)
		c.read() // until it is closed
	})
	for i, want := range []string{"ok", "good"} {
		if i == 1 {
			close(first)
			<-sent
		}
		a, err := l.Send(t.Context(), get)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(a)
		a.Close()
		if err != nil || string(body) != want {
			t.Fatalf("answer %d: %q, %v, want %q", i+1, body, err, want)
		}
	}
}

// The piece before a fault is still the caller's when the fault is known: its
// buffer must not be on loan to somebody else.
func TestPieceBeforeAFault(t *testing.T) {
	l := engine(t, func(_ int, c *server) {
		c.read()
		c.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nno size\r\n")
	})
	a, err := l.Send(t.Context(), get)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	piece, err := a.Next()
	if err != nil {
		t.Fatal(err)
	}
	other := l.buffers.get()
	for i := range *other {
		(*other)[i] = 'X'
	}
	if string(piece) != "hello" {
		t.Errorf("the piece is %q now", piece)
	}
	if piece, err := a.Next(); !errors.Is(err, errChunks) {
		t.Errorf("behind the fault: %q, %v", piece, err)
	}
}

func TestEndlessProvisionalAnswers(t *testing.T) {
	l := engine(t, func(_ int, c *server) {
		c.read()
		for range maxProvisional + 1 {
			c.say("HTTP/1.1 102 Processing\r\n\r\n")
		}
		c.say("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	})
	if _, err := l.Send(t.Context(), get); err == nil || !strings.Contains(err.Error(), "provisional") {
		t.Errorf("%v", err)
	}
}
