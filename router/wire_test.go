package router

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lm-warden/warden/router/link"
)

// body is a request of exactly size bytes that an engine accepts.
func bodyOf(size int) string {
	head, tail := `{"model":"`+testModel+`","messages":[{"role":"user","content":"`, `"}]}`
	return head + strings.Repeat("a", size-len(head)-len(tail)) + tail
}

// The largest body passes unchanged; one byte more does not. TestBodies has the
// same for packed ones, with a smaller limit.
func TestLargestBody(t *testing.T) {
	const limit = 34 << 20
	whole := bodyOf(limit)
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, setup{engines: 1})
		if r := f.post("/v1/chat/completions", whole); r.status != 200 {
			t.Fatalf("%d %.200s %v", r.status, r.body, r.err)
		}
		if got := f.engine("r0").requests()[0].body; got != whole {
			t.Errorf("the engine got %d bytes, want %d unchanged", len(got), len(whole))
		}
		if r := f.post("/v1/chat/completions", bodyOf(limit+1)); r.status != 413 || len(f.engine("r0").requests()) != 1 {
			t.Errorf("one byte more: %d %.200s", r.status, r.body)
		}
	})
}

// Chunked requests, as tunnels make them, are sent on with a length.
func TestChunkedBodyIsSentWithItsLength(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, setup{engines: 1})
		var length atomic.Int64
		f.engine("r0").set(func(w http.ResponseWriter, req *http.Request) {
			length.Store(req.ContentLength)
			sayHello(w, req)
		})
		req := f.request(t.Context(), "POST", "/v1/chat/completions", "")
		req.Body, req.ContentLength = io.NopCloser(io.MultiReader(strings.NewReader(chatBody("x")[:10]), strings.NewReader(chatBody("x")[10:]))), -1
		if r := f.do(req); r.status != 200 || length.Load() != int64(len(chatBody("x"))) || f.engine("r0").requests()[0].body != chatBody("x") {
			t.Errorf("%d, the engine got %d bytes declared", r.status, length.Load())
		}
	})
}

// An event stream is never compressed: the engine is not asked to, and what it
// sends is passed on as it is, whatever the client would accept.
func TestStreamsAreNotCompressed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, setup{engines: 1})
		f.engine("r0").set(func(w http.ResponseWriter, req *http.Request) {
			s := stream(w)
			s.send(chunk(strings.Repeat("a", 4000)))
			s.finish()
		})
		r := f.post("/v1/chat/completions", streamBody("x"), "Accept-Encoding", "gzip, br, zstd")
		if got := f.engine("r0").requests()[0].header["Accept-Encoding"]; got != nil {
			t.Errorf("the engine was asked for %q", got)
		}
		if r.header.Get("Content-Encoding") != "" || r.body != chunk(strings.Repeat("a", 4000))+finishChunk+usageChunk+doneEvent {
			t.Errorf("%v, %d bytes", r.header, len(r.body))
		}
		// An engine behind something that compresses all the same.
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		_, _ = io.WriteString(z, helloBody)
		_ = z.Close()
		f.engine("r0").set(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(packed.Bytes())
		})
		if r := f.post("/v1/chat/completions", chatBody("x"), "Accept-Encoding", "gzip"); r.header.Get("Content-Encoding") != "gzip" || r.body != packed.String() {
			t.Errorf("packed by the engine: %v, %d bytes of %d", r.header, len(r.body), packed.Len())
		}
	})
}

// A connection to an engine is used again while it is young and closed by us
// before uvicorn closes it after 5 s, so that no request meets the closing.
func TestConnectionsAreGivenUpBeforeTheEngineDoes(t *testing.T) {
	const uvicorn = 5 * time.Second
	if link.Idle >= uvicorn {
		t.Fatalf("connections are kept for %v", link.Idle)
	}
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, setup{engines: 1})
		e := f.engine("r0")
		var opened, closed atomic.Int64
		var last atomic.Int64
		e.server.ConnState = func(_ net.Conn, s http.ConnState) {
			switch s {
			case http.StateNew:
				opened.Add(1)
			case http.StateClosed:
				closed.Add(1)
				last.Store(time.Now().UnixNano())
			}
		}
		for i := range 5 {
			f.chat("s")
			elapse(link.Idle - time.Second)
			if opened.Load() != 1 || closed.Load() != 0 {
				t.Fatalf("request %d: %d connections, %d closed", i, opened.Load(), closed.Load())
			}
		}
		f.chat("s")
		ended := time.Now()
		elapse(uvicorn)
		if closed.Load() != 1 {
			t.Fatal("the connection is still open when the engine closes it")
		}
		if idle := time.Unix(0, last.Load()).Sub(ended); idle != link.Idle {
			t.Errorf("it was closed after %v", idle)
		}
		f.chat("s")
		if opened.Load() != 2 {
			t.Errorf("%d connections", opened.Load())
		}
	})
}

// While a request is held nothing at all is sent: its connection stays open, and
// after at most 240 s it gets an answer in its API's shape, with a status, a
// Retry-After and a reason. See "Waiting" in doc.go.
func TestHeldRequestsAreSilent(t *testing.T) {
	for path, shape := range map[string]string{"/v1/messages": `"type":"error"`, "/v1/responses": `"param":null`} {
		inBubble(t, func(t *testing.T) {
			f := newFixture(t, setup{})
			conn, err := f.net.dial(t.Context(), "warden")
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			body := streamBody("x")
			if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			first := make([]byte, 1)
			if _, err := io.ReadFull(conn, first); err != nil {
				t.Fatal(err)
			}
			if held := time.Since(began); held != 240*time.Second {
				t.Errorf("%s: the first byte came after %v", path, held)
			}
			rest, _ := io.ReadAll(conn)
			if answer := string(first) + string(rest); !strings.HasPrefix(answer, "HTTP/1.1 429 ") ||
				!strings.Contains(answer, "\r\nRetry-After: ") || !strings.Contains(answer, shape) {
				t.Errorf("%s: %s", path, answer)
			}
		})
	}
}

// A replica that breaks off late does not start the wait anew.
func TestHeldTwiceIsHeldNoLonger(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, setup{engines: 1})
		f.engine("r0").set(func(http.ResponseWriter, *http.Request) {
			elapse(200 * time.Second)
			cut()
		})
		began := time.Now()
		done := make(chan reply)
		go func() { done <- f.post("/v1/chat/completions", chatBody("x")) }()
		soon()
		if err := f.router.SetReplicas(testModel, []Replica{{ID: "r0", Generation: 1, Address: "mem:r0", Starting: true}}); err != nil {
			t.Fatal(err)
		}
		if r := <-done; r.status != 429 || r.header.Get("Retry-After") != "15" || time.Since(began) != 240*time.Second {
			t.Errorf("after %v: %d %v %s", time.Since(began), r.status, r.header, r.body)
		}
	})
}
