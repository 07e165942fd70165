package router

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// engineEnds are ways in which an engine's stream ends once the client has had
// its first event, and what is to come of them.
var engineEnds = []struct {
	name   string
	head   string // "": in chunks
	say    string
	over   func(c *engineConn) // nil: the connection is closed, half of it first
	whole  string              // what the client gets, as a whole answer; "": the answer is cut
	cut    string              // what it gets of a cut one, before the error event
	silent bool                // there is no error event
	reused bool                // the engine's connection
	only   network
}{
	{name: "dies between two events", say: piece(chunk("b")), cut: chunk("b")},
	{name: "dies at once"},
	{name: "dies in mid-event", say: piece(chunk("b") + chunk("c")[:30]), cut: chunk("b") + chunk("c")[:30], silent: true},
	{name: "dies in mid-chunk", say: piece(chunk("b"))[:30], cut: piece(chunk("b"))[4:30], silent: true},
	{name: "dies in the size of a chunk", say: piece(chunk("b")) + "1", cut: chunk("b")},
	{name: "closes without an end marker", say: pieces(chunk("b"), finishChunk) + lastPiece, cut: chunk("b") + finishChunk, reused: true},
	{name: "sends a size that is none", say: piece(chunk("b")) + "xyz\r\n", over: waits, cut: chunk("b")},
	{name: "sends no size at all", say: "\r\n", over: waits},
	{name: "sends a chunk that is longer than it says", say: "5\r\n" + chunk("b") + "\r\n", over: waits, cut: chunk("b")[:5], silent: true},
	{name: "resets", say: "", over: (*engineConn).reset, only: overTCP},

	{name: "end marker, and end of the connection", say: pieces(chunk("b"), usageChunk, doneEvent) + lastPiece, whole: chunk("b") + usageChunk + doneEvent},
	{name: "all at once", say: pieces(chunk("b"), usageChunk, doneEvent) + lastPiece, over: func(*engineConn) {}, whole: chunk("b") + usageChunk + doneEvent},
	{name: "end marker, but no last chunk", say: pieces(chunk("b"), usageChunk, doneEvent), whole: chunk("b") + usageChunk + doneEvent},
	{name: "end marker, and then no chunk", say: pieces(usageChunk, doneEvent) + "xyz\r\n", over: waits, whole: usageChunk + doneEvent},
	{name: "bytes behind the last chunk", say: pieces(usageChunk, doneEvent) + lastPiece + "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nstale", over: waits, whole: usageChunk + doneEvent},
	{name: "a trailer", say: pieces(usageChunk, doneEvent) + "0\r\nX-Trailer: a\r\n\r\n", over: waits, whole: usageChunk + doneEvent, reused: true},
	{name: "goes on", say: pieces(usageChunk, doneEvent) + lastPiece, over: waits, whole: usageChunk + doneEvent, reused: true},

	{name: "no chunks, end of the connection", head: "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n", say: chunk("b") + usageChunk + doneEvent, whole: chunk("b") + usageChunk + doneEvent},
	{name: "no chunks, cut", head: "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n", say: chunk("b"), cut: chunk("b")},
	{name: "a length", head: fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n", len(chunk("a")+usageChunk+doneEvent)),
		say: usageChunk + doneEvent, over: waits, whole: usageChunk + doneEvent, reused: true},
	{name: "a length, cut", head: "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 5000\r\n\r\n", say: chunk("b"), cut: chunk("b")},
}

// waits leaves the connection to warden: it ends when that closes it, or sends
// the next request.
func waits(c *engineConn) { _, _ = c.in.Peek(1) }

// However an engine's stream ends, the client sees the truth, and the same as
// it sees in memory: a whole answer that ends properly and leaves its connection
// of use, or the error event, where one can be read, and the end of the
// connection. A failure is reported once.
func TestEndsOfEnginesOverSockets(t *testing.T) {
	for _, end := range engineEnds {
		for _, n := range []network{inMemory, overUnix, overTCP} {
			if end.only != "" && end.only != n {
				continue
			}
			t.Run(end.name+", "+string(n), func(t *testing.T) {
				again := make(chan int64, 2)
				f := newFront(t, n, Options{}, func(c *engineConn) {
					for req := c.request(); req != nil; req = c.request() {
						if req.Header.Get("X-Stream") == "again" {
							again <- c.number
							c.say("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ", fmt.Sprint(len(helloBody)), "\r\n\r\n", helloBody)
							continue
						}
						if end.head != "" {
							c.say(end.head, chunk("a"))
						} else {
							c.say(streamHead, piece(chunk("a")))
						}
						c.wait(req)
						c.say(end.say)
						if end.over == nil || c.front.network == inMemory && end.only != "" {
							if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
								_ = half.CloseWrite()
								_, _ = c.in.Peek(1)
							}
							return
						}
						if end.over(c); end.name == "all at once" || end.only != "" {
							return
						}
					}
				})
				c := f.call()
				resp := c.begun("/v1/chat/completions", streamBody("x"), chunk("a"), "X-Stream", "s")
				f.at("s") <- struct{}{}
				got, err := io.ReadAll(resp.Body)
				text := string(got)
				rec := f.record()
				if end.whole != "" {
					if text != end.whole || err != nil || rec.Failed || rec.Aborted || rec.Usage.CachedTokens != 80 {
						t.Fatalf("got %q, %v, want %q\n%+v", text, err, end.whole, rec)
					}
				} else {
					event, ok := strings.CutPrefix(text, end.cut)
					if !ok || end.silent != (event == "") || !end.silent && !strings.HasPrefix(event, `data: {"error":{"message":"replica r0 broke off in the middle of its answer (`) {
						t.Errorf("got %q, want %q and an error event (%v)", text, end.cut, !end.silent)
					}
					if strings.HasPrefix(end.name, "sends") && !end.silent && !strings.Contains(event, "not properly chunked") {
						t.Errorf("the event does not say what is wrong: %q", event)
					}
					if !errors.Is(err, io.ErrUnexpectedEOF) {
						t.Errorf("reading ended with %v", err)
					}
					if looksComplete(reply{status: 200, body: text, err: err}) {
						t.Errorf("a cut stream looks complete: %q", text)
					}
					if !rec.Failed || rec.Aborted {
						t.Errorf("%+v", rec)
					}
					if got := f.blamed(); len(got) != 1 || got[0] != "r0/1" {
						t.Errorf("failures reported: %v", got)
					}
					return
				}
				if rec.BytesOut != int64(len(chunk("a")+text)) || rec.Status != http.StatusOK || rec.Attempts != 1 {
					t.Errorf("%+v", rec)
				}
				c.ask("/v1/chat/completions", chatBody("x"), "X-Stream", "again")
				if body, err := io.ReadAll(c.answer().Body); string(body) != helloBody || err != nil {
					t.Errorf("the next answer on the client's connection: %q, %v", body, err)
				}
				if number := <-again; (number == 1) != end.reused {
					t.Errorf("the next request came on connection %d of the engine's", number)
				}
				if got := f.blamed(); len(got) != 0 {
					t.Errorf("failures reported: %v", got)
				}
			})
		}
	}
}

// An engine that says in its stream that it is dead has failed, though the
// stream is a whole one.
func TestDeadEngineOverSockets(t *testing.T) {
	dead := `data: {"error":{"message":"EngineCore encountered an issue. See stack trace (above) for the root cause.","type":"InternalServerError","param":null,"code":500}}` + "\n\n"
	for _, n := range []network{inMemory, overUnix, overTCP} {
		f := newFront(t, n, Options{}, func(c *engineConn) {
			for req := c.request(); req != nil; req = c.request() {
				c.say(streamHead, piece(chunk("a")))
				c.wait(req)
				c.say(pieces(dead, doneEvent), lastPiece)
			}
		})
		resp := f.call().begun("/v1/chat/completions", streamBody("x"), chunk("a"), "X-Stream", "s")
		f.at("s") <- struct{}{}
		if got, err := io.ReadAll(resp.Body); string(got) != dead+doneEvent || err != nil {
			t.Errorf("%s: %q, %v", n, got, err)
		}
		if r := f.record(); !r.Failed || r.Aborted {
			t.Errorf("%s: %+v", n, r)
		}
		if got := f.blamed(); len(got) != 1 {
			t.Errorf("%s: failures reported: %v", n, got)
		}
	}
}

// atOnce is how soon an engine learns that its client has left, on a machine
// with much to do.
const atOnce = time.Second

// However a client leaves, in the middle of a stream, while the engine is silent
// or sends, the engine's connection ends at once, and nothing is left over.
func TestClientsLeaveOverSockets(t *testing.T) {
	ways := map[string]func(c *caller){
		"closes": func(c *caller) { _ = c.Close() },
		"resets": func(c *caller) {
			_ = c.Conn.(*net.TCPConn).SetLinger(0)
			_ = c.Close()
		},
		"sends no more": func(c *caller) { _ = c.Conn.(*net.TCPConn).CloseWrite() },
	}
	for _, n := range []network{overUnix, overTCP} {
		for way, leave := range ways {
			for _, sends := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, %s, the engine sends: %v", n, way, sends), func(t *testing.T) {
					over := make(chan time.Time, 1)
					f := newFront(t, n, Options{}, func(c *engineConn) {
						req := c.request()
						if req == nil {
							return
						}
						c.say(streamHead, piece(chunk("a")))
						if sends {
							c.wait(req)
							for c.say(piece(chunk(strings.Repeat("b", 100)))) {
							}
						} else if err := c.gone(); err != nil {
							t.Error(err)
						}
						over <- time.Now()
					})
					c := f.call()
					resp := c.begun("/v1/chat/completions", streamBody("x"), chunk("a"), "X-Stream", "s")
					if sends {
						f.at("s") <- struct{}{}
						c.expect(resp, strings.Repeat(chunk(strings.Repeat("b", 100)), 10))
					}
					if held, _ := f.router.Work("r0"); held != 1 {
						t.Errorf("%d held", held)
					}
					left := time.Now()
					leave(c)
					select {
					case at := <-over:
						if d := at.Sub(left); d > atOnce {
							t.Errorf("the engine learned it after %v", d)
						}
					case <-time.After(patience):
						t.Fatal("the engine does not learn it")
					}
					r := f.record()
					if !r.Aborted || r.Failed || r.Stalled || r.FirstToken.IsZero() {
						t.Errorf("%+v", r)
					}
					if held, _ := f.router.Work("r0"); held != 0 {
						t.Errorf("%d held after the client left", held)
					}
					if got := f.blamed(); len(got) != 0 {
						t.Errorf("failures reported: %v", got)
					}
					if way == "sends no more" {
						if _, err := io.Copy(io.Discard, resp.Body); !errors.Is(err, io.ErrUnexpectedEOF) && !errors.As(err, new(*net.OpError)) {
							t.Errorf("what the client could still read ends with %v", err)
						}
					}
				})
			}
		}
	}
}

// A client that reads nothing and then leaves is not waited for, either.
func TestStuckClientsLeaveOverSockets(t *testing.T) {
	for _, n := range []network{overUnix, overTCP} {
		t.Run(string(n), func(t *testing.T) {
			full, over := make(chan struct{}), make(chan error, 1)
			f := newFront(t, n, Options{}, func(c *engineConn) {
				if c.request() == nil {
					return
				}
				for ok := c.say(streamHead, piece(chunk("a"))); ok; {
					_ = c.SetWriteDeadline(time.Now().Add(500 * time.Millisecond))
					ok = c.say(piece(chunk(strings.Repeat("b", 10_000))))
				}
				close(full)
				over <- c.gone()
			})
			c := f.call()
			c.begun("/v1/chat/completions", streamBody("x"), chunk("a"))
			<-full
			left := time.Now()
			if err := c.Conn.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-over:
				if d := time.Since(left); err != nil || d > atOnce {
					t.Errorf("the engine learned it after %v: %v", d, err)
				}
			case <-time.After(patience):
				t.Fatal("the engine does not learn it")
			}
			if r := f.record(); !r.Aborted || r.Failed || r.Stalled {
				t.Errorf("%+v", r)
			}
		})
	}
}

// A client that hangs up at the end marker, before the engine has ended the
// stream, has had its whole answer.
func TestClientsLeaveAtTheEndOverSockets(t *testing.T) {
	for _, n := range []network{overUnix, overTCP} {
		over := make(chan error, 1)
		f := newFront(t, n, Options{}, func(c *engineConn) {
			if req := c.request(); req != nil {
				c.say(streamHead, piece(chunk("a")))
				c.wait(req)
				c.say(pieces(finishChunk, usageChunk, doneEvent))
				over <- c.gone()
			}
		})
		c := f.call()
		resp := c.begun("/v1/chat/completions", streamBody("x"), chunk("a"), "X-Stream", "s")
		f.at("s") <- struct{}{}
		c.expect(resp, finishChunk+usageChunk+doneEvent)
		_ = c.Close()
		if err := <-over; err != nil {
			t.Error(err)
		}
		if r := f.record(); r.Aborted || r.Failed || r.Usage.CachedTokens != 80 || r.Finish != "stop" {
			t.Errorf("%s: %+v", n, r)
		}
	}
}
