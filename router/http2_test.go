package router

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// overHTTP2 lets the fixture's client speak HTTP/2, without TLS: over it
// net/http's writers, deadlines and ends of requests are other code.
func (f *fixture) overHTTP2() {
	server := NewServer(f.router)
	server.Protocols.SetUnencryptedHTTP2(true)
	front := f.net.listen("warden-h2")
	go func() { _ = server.Serve(front) }()
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	f.client = &http.Client{Transport: &http.Transport{
		Protocols:          &protocols,
		DialContext:        func(ctx context.Context, _, _ string) (net.Conn, error) { return f.net.dial(ctx, "warden-h2") },
		DisableCompression: true,
	}}
	client := f.client
	f.t.Cleanup(func() {
		client.CloseIdleConnections()
		_ = server.Close()
	})
}

// An engine may be silent for long between two tokens; its client reads all the
// while.
func TestHTTP2StreamSurvivesASilentEngine(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, setup{engines: 1})
		f.overHTTP2()
		f.engines[0].set(func(w http.ResponseWriter, _ *http.Request) {
			s := stream(w)
			s.send(chunk("a"))
			elapse(100 * time.Second)
			s.send(chunk("b"))
			s.finish()
		})
		r := f.post("/v1/chat/completions", streamBody("x"))
		if want := chunk("a") + chunk("b") + finishChunk + usageChunk + doneEvent; r.err != nil || r.body != want {
			t.Errorf("%v\n%s", r.err, r.body)
		}
	})
}

func TestHTTP2ClientThatDoesNotRead(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, setup{engines: 1})
		f.overHTTP2()
		f.engines[0].set(func(w http.ResponseWriter, _ *http.Request) {
			s := stream(w)
			for range 100 { // more than the client's window, which is 4 MiB
				s.send(chunk(strings.Repeat("a", 100_000)))
			}
			s.finish()
		})
		resp, err := f.client.Do(f.request(t.Context(), http.MethodPost, "/v1/chat/completions", streamBody("x")))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		elapse(40 * time.Second)
		if rec := f.finished(); len(rec) != 1 || !rec[0].Aborted || !rec[0].Stalled {
			t.Errorf("%+v", rec)
		}
	})
}

// HTTP/2 lets white space into a path, which over HTTP/1 would end it.
func TestHTTP2SpacesInTheQuery(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, setup{engines: 1})
		f.overHTTP2()
		req := f.request(t.Context(), http.MethodPost, "/v1/chat/completions", chatBody("x"))
		req.URL.RawQuery = "a=b HTTP/1.0"
		if r := f.do(req); r.err != nil || r.status != http.StatusOK {
			t.Fatalf("%+v", r)
		}
		if got := f.engines[0].requests()[0].query; got != "a=b%20HTTP/1.0" {
			t.Errorf("the engine got the query %q", got)
		}
	})
}

// Answers that no engine gives have the same bound.
func TestMetricsForAClientThatDoesNotRead(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		ended := make(chan error, 1)
		f := newFixture(t, setup{options: Options{Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			var err error
			for n := 0; n < 100 && err == nil; n++ {
				_, err = io.WriteString(w, strings.Repeat("a", 100_000))
			}
			ended <- err
		})}})
		conn, err := f.net.dial(t.Context(), "warden")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		elapse(40 * time.Second)
		select {
		case err := <-ended:
			if err == nil {
				t.Error("who read it?")
			}
		default:
			t.Error("the handler still writes")
		}
	})
}

// Connections are bounded elsewhere; requests are not bounded by them.
func TestHTTP2RequestsAtOnceAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, setup{engines: 1, options: Options{MaxOpen: 2}})
		f.overHTTP2()
		answer := make(chan struct{})
		f.engines[0].set(func(w http.ResponseWriter, req *http.Request) {
			<-answer
			sayHello(w, req)
		})
		statuses := make(chan int)
		for range 3 {
			go func() { statuses <- f.post("/v1/chat/completions", chatBody("x")).status }()
		}
		if got := <-statuses; got != http.StatusTooManyRequests {
			t.Errorf("one of three was answered with %d", got)
		}
		close(answer)
		for range 2 {
			if got := <-statuses; got != http.StatusOK {
				t.Errorf("one of two was answered with %d", got)
			}
		}
		if got := f.post("/v1/chat/completions", chatBody("x")).status; got != http.StatusOK {
			t.Errorf("the next was answered with %d", got)
		}
	})
}

// The end of a request that comes while its body is read ends nothing else:
// not the process either.
func TestHTTP2ClientsThatLeaveInTheirBody(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, setup{engines: 1})
		f.overHTTP2()
		for range 300 {
			ctx, cancel := context.WithCancel(t.Context())
			body, more := io.Pipe()
			req := f.request(ctx, http.MethodPost, "/v1/chat/completions", "")
			req.Body, req.ContentLength = body, 1000
			ended := make(chan reply, 1)
			go func() { ended <- f.do(req) }()
			_, _ = io.WriteString(more, `{"model":`)
			soon()
			cancel()
			if r := <-ended; r.err == nil && r.status < 400 {
				t.Fatalf("half a request was answered: %+v", r)
			}
			_ = more.Close()
		}
		if r := f.post("/v1/chat/completions", chatBody("x")); r.status != http.StatusOK {
			t.Errorf("the next client: %+v", r)
		}
	})
}
