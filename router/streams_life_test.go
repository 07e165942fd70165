package router

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lm-warden/warden/router/deployment"
	"github.com/lm-warden/warden/router/socket"
)

// flood plays an engine that sends events without end, as fast as they are
// taken, and notes how much that was.
func flood(sent *atomic.Int64, over chan<- struct{}) script {
	event := piece(chunk(strings.Repeat("b", 4000)))
	return func(c *engineConn) {
		req := c.request()
		if req == nil {
			return
		}
		c.say(streamHead, piece(chunk("a")))
		c.wait(req)
		for c.say(event) {
			sent.Add(int64(len(event)))
		}
		over <- struct{}{}
	}
}

// maxOnTheWay is more than the kernel's buffers hold of one stream: those of a
// TCP connection grow to 6 MiB on the reading side and 4 MiB on the other.
const maxOnTheWay = 24 << 20

// A client that reads nothing stops its engine, and is let go after the idle
// time; it costs no memory meanwhile, and nobody else is slowed.
func TestClientThatDoesNotReadOverSockets(t *testing.T) {
	for _, n := range []network{overUnix, overTCP} {
		t.Run(string(n), func(t *testing.T) {
			var sent atomic.Int64
			over := make(chan struct{}, 1)
			f := newFront(t, n, Options{IdleTimeout: 500 * time.Millisecond}, flood(&sent, over))
			c := f.call()
			_ = c.Conn.(*net.TCPConn).SetReadBuffer(4096)
			c.begun("/v1/chat/completions", streamBody("x"), chunk("a"), "X-Stream", "s")
			began := time.Now()
			f.at("s") <- struct{}{}
			r := f.record()
			<-over
			if !r.Aborted || !r.Stalled || r.Failed || time.Since(began) < 400*time.Millisecond {
				t.Errorf("after %v: %+v", time.Since(began), r)
			}
			if n := sent.Load(); n > maxOnTheWay || n == 0 {
				t.Errorf("the engine could send %d bytes to a client that read nothing", n)
			}
			if got := f.blamed(); len(got) != 0 {
				t.Errorf("failures reported: %v", got)
			}
		})
	}
}

// A client may read as slowly as it likes: it gets everything, and the others
// do not wait for it.
func TestSlowClientOverSockets(t *testing.T) {
	const events = 400
	event := chunk(strings.Repeat("b", 32<<10)) // 13 MiB in all
	for _, n := range []network{overUnix, overTCP} {
		t.Run(string(n), func(t *testing.T) {
			f := newFront(t, n, Options{}, func(c *engineConn) {
				for req := c.request(); req != nil; req = c.request() {
					c.say(streamHead, piece(chunk("a")))
					c.wait(req)
					if req.Header.Get("X-Stream") == "slow" {
						for range events {
							c.say(piece(event))
						}
					}
					c.say(pieces(usageChunk, doneEvent), lastPiece)
				}
			})
			slow := f.call()
			_ = slow.Conn.(*net.TCPConn).SetReadBuffer(16 << 10)
			resp := slow.begun("/v1/chat/completions", streamBody("x"), chunk("a"), "X-Stream", "slow")
			f.at("slow") <- struct{}{}
			others := func(count int) {
				parallel(count, 20, func(i int, _ *rand.Rand) {
					name := fmt.Sprint("fast", i)
					f.at(name) <- struct{}{}
					conn, err := net.Dial("tcp", f.address)
					if err != nil {
						t.Error(err)
						return
					}
					defer conn.Close()
					_ = conn.SetDeadline(time.Now().Add(patience))
					_, _ = io.WriteString(conn, asking("/v1/chat/completions", streamBody("x"), "X-Stream", name, "Connection", "close"))
					raw, err := io.ReadAll(conn)
					bodies, wrong := answersIn(raw)
					if err != nil || wrong != nil || len(bodies) != 1 || bodies[0] != chunk("a")+usageChunk+doneEvent {
						t.Errorf("another client got %q, %v, %v", raw, err, wrong)
					}
				})
			}
			others(100)
			for range events {
				if slow.expect(resp, event); t.Failed() {
					return
				}
			}
			others(1)
			slow.expect(resp, usageChunk+doneEvent)
			if _, err := resp.Body.Read(make([]byte, 1)); err != io.EOF {
				t.Error(err)
			}
			for range 102 {
				if r := f.record(); r.Aborted || r.Failed {
					t.Errorf("%+v", r)
				}
			}
		})
	}
}

// A stream may take far longer than its client may stand still, and its
// connection is of use afterwards.
func TestStreamLongerThanTheIdleTime(t *testing.T) {
	const idle = 200 * time.Millisecond
	for _, n := range []network{overUnix, overTCP} {
		f := newFront(t, n, Options{IdleTimeout: idle}, func(c *engineConn) {
			for req := c.request(); req != nil; req = c.request() {
				c.say(streamHead, piece(chunk("a")))
				c.wait(req)
				for _, rest := range []string{piece(chunk("b")), pieces(usageChunk, doneEvent) + lastPiece} {
					elapse(2 * idle) // sockets know no other time than the real one
					c.say(rest)
				}
			}
		})
		c := f.call()
		for range 2 {
			resp := c.begun("/v1/chat/completions", streamBody("x"), chunk("a"), "X-Stream", "s")
			f.at("s") <- struct{}{}
			if got, err := io.ReadAll(resp.Body); string(got) != chunk("b")+usageChunk+doneEvent || err != nil {
				t.Errorf("%s: %q, %v", n, got, err)
			}
			if r := f.record(); r.Aborted || r.Stalled || r.Ended.Sub(r.FirstToken) < 4*idle {
				t.Errorf("%s: %+v", n, r)
			}
		}
	}
}

// silent plays an engine that sends one event and is told to end by its client,
// or by the end of the connection.
func silent(over chan<- struct{}) script {
	return func(c *engineConn) {
		defer func() { over <- struct{}{} }()
		if req := c.request(); req != nil {
			c.say(streamHead, piece(chunk("a")))
			gone := make(chan error, 1)
			go func() { gone <- c.gone() }()
			select {
			case <-gone:
			case <-c.front.at(req.Header.Get("X-Stream")):
				c.say(pieces(usageChunk, doneEvent), lastPiece)
				<-gone
			}
		}
	}
}

// Close cuts streams in their middle, says so to their engines, and returns when
// all have ended; nothing of them is left.
func TestCloseCutsStreamsOverSockets(t *testing.T) {
	const streams = 64
	for _, n := range []network{overUnix, overTCP} {
		t.Run(string(n), func(t *testing.T) {
			running := runtime.NumGoroutine() + 1 // the engine's
			over := make(chan struct{}, streams)
			f := newFront(t, n, Options{}, silent(over))
			before := descriptors(t)
			var callers []*caller
			var answers []*http.Response
			for range streams {
				c := f.call()
				callers, answers = append(callers, c), append(answers, c.begun("/v1/chat/completions", streamBody("x"), chunk("a")))
			}
			f.router.Close()
			for range streams {
				if r := f.record(); !r.Aborted || r.Failed || r.Stalled {
					t.Errorf("%+v", r)
				}
				<-over
			}
			for i, resp := range answers {
				if got, err := io.ReadAll(resp.Body); !errors.Is(err, io.ErrUnexpectedEOF) || len(got) > 0 {
					t.Fatalf("stream %d ended with %q, %v", i, got, err)
				}
				_ = callers[i].Close()
			}
			if got := f.blamed(); len(got) != 0 {
				t.Errorf("failures reported: %v", got)
			}
			eventually(t, "all sockets are closed", func() bool { return descriptors(t) <= before })
			_ = f.server.Close()
			eventually(t, "all goroutines have ended", func() bool { return runtime.NumGoroutine() <= running })
		})
	}
}

// Nothing is left of streams whose clients have left, nor of those that ended
// well once their clients have closed their connections.
func TestNothingIsLeftOfStreams(t *testing.T) {
	const streams = 64
	over := make(chan struct{}, 2*streams)
	f := newFront(t, overUnix, Options{}, silent(over))
	round := func() {
		var callers []*caller
		for i := range streams {
			c := f.call()
			callers = append(callers, c)
			resp := c.begun("/v1/chat/completions", streamBody("x"), chunk("a"), "X-Stream", fmt.Sprint(i))
			if i%2 == 0 {
				f.at(fmt.Sprint(i)) <- struct{}{}
				if _, err := io.Copy(io.Discard, resp.Body); err != nil {
					t.Error(err)
				}
			}
		}
		for _, c := range callers {
			_ = c.Close()
		}
		for range streams {
			f.record()
		}
	}
	round() // begins what stays: the pump
	settled := func() (int, int) {
		// Connections to engines are kept for 4 s after a whole answer.
		eventually(t, "engines' connections have ended", func() bool { return len(over) == streams })
		for range streams {
			<-over
		}
		return descriptors(t), runtime.NumGoroutine()
	}
	sockets, goroutines := settled()
	round()
	settled()
	eventually(t, "all sockets are closed", func() bool { return descriptors(t) <= sockets })
	eventually(t, "all goroutines have ended", func() bool { return runtime.NumGoroutine() <= goroutines })
}

// Drain waits for streams, and they come to their end.
func TestDrainWaitsForStreamsOverSockets(t *testing.T) {
	for _, n := range []network{overUnix, overTCP} {
		over := make(chan struct{}, 2)
		f := newFront(t, n, Options{}, silent(over))
		c := f.call()
		resp := c.begun("/v1/chat/completions", streamBody("x"), chunk("a"), "X-Stream", "s")
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := f.router.Drain(ended); !errors.Is(err, context.Canceled) {
			t.Fatalf("%s: Drain did not wait: %v", n, err)
		}
		other := f.call()
		other.ask("/v1/chat/completions", streamBody("x"))
		if refused := other.answer(); refused.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("%s: a request while draining: %d", n, refused.StatusCode)
		}
		f.record() // of the refusal
		drained := make(chan error, 1)
		go func() { drained <- f.router.Drain(t.Context()) }()
		f.at("s") <- struct{}{}
		if got, err := io.ReadAll(resp.Body); string(got) != usageChunk+doneEvent || err != nil {
			t.Errorf("%s: %q, %v", n, got, err)
		}
		if err := <-drained; err != nil {
			t.Error(err)
		}
		if r := f.record(); r.Aborted || r.Failed {
			t.Errorf("%s: %+v", n, r)
		}
	}
}

// A client that sends its request again while the first one's stream runs for
// nobody ends that.
func TestResentStreamOverSockets(t *testing.T) {
	for _, n := range []network{overUnix, overTCP} {
		over := make(chan struct{}, 2)
		f := newFront(t, n, Options{}, silent(over))
		first := f.call()
		f.router.now = func() time.Time { return time.Now().Add(-deployment.ResendAfter) }
		resp := first.begun("/v1/chat/completions", streamBody("x"), chunk("a"), "X-Session-Id", "s", "X-Stream", "first")
		f.router.now = time.Now
		second := f.call()
		again := second.begun("/v1/chat/completions", streamBody("x"), chunk("a"), "X-Session-Id", "s", "X-Stream", "second")
		<-over
		if r := f.record(); !r.Aborted || r.Stalled || r.Failed {
			t.Errorf("%s: %+v", n, r)
		}
		if got, err := io.ReadAll(resp.Body); len(got) > 0 || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: the earlier one ended with %q, %v", n, got, err)
		}
		f.at("second") <- struct{}{}
		if got, err := io.ReadAll(again.Body); string(got) != usageChunk+doneEvent || err != nil {
			t.Errorf("%s: the later one: %q, %v", n, got, err)
		}
		if m := f.router.Snapshot(0).Models[0]; m.Resent != 1 {
			t.Errorf("%s: %d resent", n, m.Resent)
		}
	}
}

// Clients of other protocols get their streams, too.
func TestOtherProtocolsOverSockets(t *testing.T) {
	want := chunk("a") + usageChunk + doneEvent
	t.Run("HTTP/1.0", func(t *testing.T) {
		f := newFront(t, overUnix, Options{}, byteByByte)
		f.at("") <- struct{}{}
		c := f.call()
		_, _ = io.WriteString(c, strings.Replace(asking("/v1/chat/completions", streamBody("x")), "HTTP/1.1", "HTTP/1.0", 1))
		raw, err := io.ReadAll(c)
		head, body, _ := strings.Cut(string(raw), "\r\n\r\n")
		if err != nil || body != strings.Join(wholeStreams["/v1/chat/completions"], "") || strings.Contains(head, "chunked") {
			t.Errorf("%q, %v", raw, err)
		}
	})
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run("TLS, "+protocol, func(t *testing.T) {
			over := make(chan struct{}, 9)
			f := newFront(t, overUnix, Options{}, silent(over))
			secure := httptest.NewUnstartedServer(nil)
			_ = secure.Listener.Close()
			secure.Config = NewServer(f.router)
			secure.Config.Protocols.SetHTTP2(protocol == "HTTP/2.0")
			secure.EnableHTTP2 = protocol == "HTTP/2.0"
			secure.Listener = socket.Listen(listen(t, "tcp", "127.0.0.1:0"))
			secure.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
			secure.StartTLS()
			defer secure.Close()
			for i := range 2 {
				f.at("s") <- struct{}{}
				req, err := http.NewRequestWithContext(t.Context(), "POST", secure.URL+"/v1/chat/completions", strings.NewReader(streamBody("x")))
				if err != nil {
					t.Fatal(err)
				}
				req.Header = http.Header{"Content-Type": {"application/json"}, "X-Stream": {"s"}}
				resp, err := secure.Client().Do(req)
				if err != nil {
					t.Fatal(err)
				}
				got, err := io.ReadAll(resp.Body)
				if string(got) != want || err != nil || resp.Proto != protocol {
					t.Errorf("request %d: %s %q, %v", i, resp.Proto, got, err)
				}
				_ = resp.Body.Close()
				if r := f.record(); r.Aborted || r.Failed || r.Usage.CachedTokens != 80 {
					t.Errorf("%+v", r)
				}
			}
		})
	}
}
