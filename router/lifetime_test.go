package router

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lm-warden/warden/router/framing"
	"github.com/lm-warden/warden/router/keepalive"
	"github.com/lm-warden/warden/router/socket"
)

// A stream whose connection has been taken from net/http outlives its handler:
// what must be done at its end is done, once, by somebody else.

// serve serves a Router as the daemon does, in front of one engine.
func serve(t *testing.T, o Options, engine string) (r *Router, address string) {
	t.Helper()
	return serveIn(t, o, engine, func(r *Router) http.Handler { return r })
}

// serveIn serves what is put around the Router.
func serveIn(t *testing.T, o Options, engine string, around func(*Router) http.Handler) (r *Router, address string) {
	t.Helper()
	front, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r = New(o)
	if err := r.SetModels([]Model{{Alias: testModel}}); err != nil {
		t.Fatal(err)
	}
	if err := r.SetReplicas(testModel, []Replica{{ID: "r0", Address: "unix:" + engine, Accepting: true, MaxNumSeqs: 1 << 20}}); err != nil {
		t.Fatal(err)
	}
	server := NewServer(around(r))
	var served sync.WaitGroup
	served.Go(func() { _ = keepalive.Serve(server, framing.Listen(socket.Listen(front))) })
	t.Cleanup(func() {
		_ = server.Close()
		served.Wait()
		r.Close()
	})
	return r, front.Addr().String()
}

// rawClient is a caller that keeps nothing of what it reads.
type rawClient struct{ caller }

func dialRouter(t *testing.T, address string) *rawClient {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(20 * time.Second)) // a test that hangs
	return &rawClient{caller{Conn: c, t: t, in: bufio.NewReader(c)}}
}

// ask sends a request for a stream; header is whole lines.
func (c *rawClient) ask(header string) {
	c.t.Helper()
	body := streamBody("x")
	if _, err := fmt.Fprintf(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n%s",
		header, len(body), body); err != nil {
		c.t.Fatal(err)
	}
}

// inSteps streams one event, and the rest when it may: the first has then been
// seen, and the stream is with the pump.
func inSteps(t *testing.T, goOn <-chan struct{}) (path string) {
	return engineOn(t, func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		s := stream(w)
		s.send(chunk("a"))
		<-goOn
		s.send(chunk("b"))
		s.finish()
	})
}

// What the engine measured is in the records of taken streams, too, and the
// connection serves the next one.
func TestTakenStreamIsMeasured(t *testing.T) {
	goOn, ended := make(chan struct{}), make(chan Record, 3)
	_, address := serve(t, Options{OnFinish: func(r Record) { ended <- r }}, inSteps(t, goOn))
	c := dialRouter(t, address)
	for range 3 {
		c.ask("")
		resp := c.answer()
		first := make([]byte, len(chunk("a")))
		if _, err := io.ReadFull(resp.Body, first); err != nil {
			t.Fatal(err)
		}
		goOn <- struct{}{}
		rest, err := io.ReadAll(resp.Body)
		want := chunk("a") + chunk("b") + finishChunk + usageChunk + doneEvent
		if got := string(first) + string(rest); err != nil || got != want {
			t.Fatalf("%q, %v", got, err)
		}
		r := <-ended
		if r.Usage.PromptTokens != 100 || r.Usage.CachedTokens != 80 || r.Usage.OutputTokens != 5 || r.Finish == "" {
			t.Errorf("measured %+v, finish %q", r.Usage, r.Finish)
		}
		if r.BytesOut != int64(len(want)) || r.Failed || r.Aborted || r.Result() != "complete" {
			t.Errorf("%d bytes of %d, %+v", r.BytesOut, len(want), r)
		}
	}
}

// A panic while a taken stream is settled ends neither the process nor what is
// left to be done for it, and is logged once.
func TestPanicAtTheEndOfATakenStream(t *testing.T) {
	goOn := make(chan struct{})
	var said bytes.Buffer
	var mu sync.Mutex
	bad := true
	_, address := serve(t, Options{
		Log: slog.New(slog.NewTextHandler(&said, nil)),
		OnFinish: func(Record) {
			mu.Lock()
			defer mu.Unlock()
			if bad {
				bad = false
				panic("on finish")
			}
		},
	}, inSteps(t, goOn))
	c := dialRouter(t, address)
	for range 2 {
		c.ask("")
		resp := c.answer()
		goOn <- struct{}{}
		if body, err := io.ReadAll(resp.Body); err != nil || !strings.HasSuffix(string(body), doneEvent) {
			t.Fatalf("%q, %v", body, err)
		}
	}
	// The second answer was begun after the first was settled: nothing is written
	// any more.
	if n := strings.Count(said.String(), "level=ERROR"); n != 1 || !strings.Contains(said.String(), "OnFinish") && !strings.Contains(said.String(), "lifetime_test") {
		t.Errorf("%d errors: %s", n, said.String())
	}
}

// A Router that is cut ends taken streams, blames no engine for it, and tells no
// client that its answer is whole.
func TestCutEndsTakenStreams(t *testing.T) {
	goOn, ended := make(chan struct{}), make(chan Record, 1)
	engineTold := make(chan struct{})
	path := engineOn(t, func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		stream(w).send(chunk("a"))
		<-req.Context().Done()
		close(engineTold)
	})
	defer close(goOn)
	failures := make(chan error, 10)
	r, address := serve(t, Options{
		OnFinish:  func(r Record) { ended <- r },
		OnFailure: func(_ ReplicaID, _ uint64, err error) { failures <- err },
	}, path)
	c := dialRouter(t, address)
	c.ask("")
	resp := c.answer()
	if _, err := io.ReadFull(resp.Body, make([]byte, len(chunk("a")))); err != nil {
		t.Fatal(err)
	}
	r.Cut()
	if rec := <-ended; !rec.Aborted || rec.Failed {
		t.Errorf("%+v", rec)
	}
	if rest, err := io.ReadAll(resp.Body); !errors.Is(err, io.ErrUnexpectedEOF) || len(rest) > 0 {
		t.Errorf("the client read %q, %v", rest, err)
	}
	<-engineTold
	select {
	case err := <-failures:
		t.Errorf("the engine was blamed: %v", err)
	default:
	}
}

// Without a free descriptor a stream stays where it is: it goes on, and its
// client's leaving is still seen while the engine is silent.
func TestNoDescriptorsForAStream(t *testing.T) {
	there, goOn, told := make(chan struct{}), make(chan struct{}), make(chan struct{})
	path := engineOn(t, func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		s := stream(w)
		close(there)
		<-goOn
		s.send(chunk("a"))
		<-req.Context().Done()
		close(told)
	})
	failures := make(chan error, 10)
	ended := make(chan Record, 1)
	_, address := serve(t, Options{
		OnFinish:  func(r Record) { ended <- r },
		OnFailure: func(_ ReplicaID, _ uint64, err error) { failures <- err },
	}, path)
	c := dialRouter(t, address)
	c.ask("")
	<-there // all connections are
	defer noDescriptors(t)()
	close(goOn)
	resp := c.answer()
	if _, err := io.ReadFull(resp.Body, make([]byte, len(chunk("a")))); err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	select {
	case <-told:
	case <-time.After(10 * time.Second):
		t.Error("the engine does not learn that the client has left")
	}
	if r := <-ended; !r.Aborted || r.Failed {
		t.Errorf("%+v", r)
	}
	select {
	case err := <-failures:
		t.Errorf("the engine was blamed: %v", err)
	default:
	}
}

// noDescriptors makes each further one fail, until restore.
func noDescriptors(t *testing.T) (restore func()) {
	t.Helper()
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	var taken []*os.File // numbers below others that are open
	for {
		f, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		taken = append(taken, f)
		if len(taken) == 64 {
			break
		}
	}
	last := taken[len(taken)-1]
	limit := was
	limit.Cur = uint64(last.Fd()) + 1
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	return func() {
		_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &was)
		for _, f := range taken {
			_ = f.Close()
		}
	}
}

// Nothing of a stream holds on to what net/http made for its request.
func TestTakenStreamHoldsNothingOfItsHandler(t *testing.T) {
	goOn, gone := make(chan struct{}), make(chan struct{})
	_, address := serveIn(t, Options{}, inSteps(t, goOn), func(r *Router) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			// The writer holds the request: with the one the other has gone.
			runtime.AddCleanup(req, func(struct{}) { close(gone) }, struct{}{})
			r.ServeHTTP(w, req)
		})
	})
	c := dialRouter(t, address)
	c.ask("")
	resp := c.answer()
	if _, err := io.ReadFull(resp.Body, make([]byte, len(chunk("a")))); err != nil {
		t.Fatal(err)
	}
	for held, limit := true, time.After(10*time.Second); held; {
		runtime.GC()
		select {
		case <-gone:
			held = false
		case <-limit:
			t.Error("the request is still held")
			held = false
		default:
		}
	}
	close(goOn)
	if _, err := io.ReadAll(resp.Body); err != nil {
		t.Error(err)
	}
}
