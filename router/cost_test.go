package router

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// What one request costs while it lasts, over real sockets: goroutines and
// memory are counted, nothing is timed.

// engineOn serves answer on a unix socket.
func engineOn(t *testing.T, answer http.HandlerFunc) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "r0.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	engine := &http.Server{Handler: answer}
	var served sync.WaitGroup
	served.Go(func() { _ = engine.Serve(l) })
	t.Cleanup(func() {
		_ = engine.Close()
		served.Wait()
	})
	return path
}

// rawEngine answers each request on a connection with one event of a stream,
// and leaves it at that. A connection costs it one small goroutine, so that
// what is counted is warden's.
func rawEngine(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "r0.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	var served sync.WaitGroup
	event := chunk("a")
	answer := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(event), event)
	served.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			served.Go(func() {
				defer c.Close()
				if req, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
					_, _ = io.Copy(io.Discard, req.Body)
					_, _ = io.WriteString(c, answer)
					_, _ = c.Read(make([]byte, 1)) // until it ends
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		served.Wait()
	})
	return path
}

// openStreams sends n requests for a stream, each on a connection of its own,
// and waits for the first event of each.
func openStreams(t *testing.T, network, address string, n int) (hangUp func()) {
	t.Helper()
	conns := make([]net.Conn, 0, n)
	hangUp = sync.OnceFunc(func() {
		for _, c := range conns {
			_ = c.Close()
		}
	})
	t.Cleanup(hangUp)
	// The body is an agent's: who holds on to it shows.
	body := strings.Replace(bodyOf(60<<10), "{", `{"stream":true,"stream_options":{"include_usage":true},`, 1)
	for i := range n {
		c, err := net.Dial(network, address)
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
		if _, err := fmt.Fprintf(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+
			"User-Agent: OpenAI/Python 2.8.0\r\nX-Session-Id: %s-%d\r\nContent-Length: %d\r\n\r\n%s", t.Name(), i, len(body), body); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 0, 1024) // on this stack: no buffer is left to be counted
		for !bytes.HasSuffix(got, []byte("\n\n\r\n")) {
			n, err := c.Read(got[len(got):cap(got)])
			if err != nil {
				t.Fatal(err)
			}
			got = got[:len(got)+n]
		}
	}
	return hangUp
}

// resting counts what this process takes while nothing happens.
func resting() (memory float64, goroutines int) {
	for range 3 { // a stack shrinks by half at a time
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.StackInuse), runtime.NumGoroutine()
}

// A stream that waits for its next event costs one goroutine, which sleeps, and
// 12 KiB, client's side and engine's side together. Most of a stream's life is
// such waiting.
func TestBarQuietStreams(t *testing.T) {
	streams := times(500, 2000)
	path, ended := rawEngine(t), make(chan struct{}, 3*streams)
	r, address := serve(t, Options{OnFinish: func(Record) { ended <- struct{}{} }}, path)
	// The conversations are known: a stream is counted, not what is remembered of
	// its conversation before and after.
	openStreams(t, "tcp", address, streams)()
	for range streams {
		<-ended
	}
	memory0, goroutines0 := resting()
	openStreams(t, "unix", path, streams) // the engine's and the client's own
	memory1, goroutines1 := resting()
	openStreams(t, "tcp", address, streams)
	memory2, goroutines2 := resting()
	if held, _ := r.Work("r0"); int(held) != streams {
		t.Fatalf("%d streams are held, want %d", held, streams)
	}
	each := ((memory2 - memory1) - (memory1 - memory0)) / float64(streams) / 1024
	more := float64((goroutines2-goroutines1)-(goroutines1-goroutines0)) / float64(streams)
	t.Logf("%d streams: %.1f KiB and %.2f goroutines each", streams, each, more)
	if each > 12 && !raced {
		t.Errorf("%.1f KiB a stream", each)
	}
	if more > 1.05 {
		t.Errorf("%.2f goroutines a stream", more)
	}
}

// peak is the most memory that this process has had since reset, in bytes.
func peak(t *testing.T) (most int64) {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip("no /proc: ", err)
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, err := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kb << 10
		}
	}
	t.Skip("no VmHWM")
	return 0
}

// repeated is a body of that size that costs no memory.
type repeated struct {
	head, tail string
	middle     int
}

func (r *repeated) Read(to []byte) (int, error) {
	switch {
	case r.head != "":
		n := copy(to, r.head)
		r.head = r.head[n:]
		return n, nil
	case r.middle > 0:
		n := min(len(to), r.middle)
		for i := range to[:n] {
			to[i] = 'a'
		}
		r.middle -= n
		return n, nil
	case r.tail != "":
		n := copy(to, r.tail)
		r.tail = r.tail[n:]
		return n, nil
	}
	return 0, io.EOF
}

// Large bodies, all there at the same time, cost what they are and little more,
// and no longer than until their answers begin. The full form is the figure: 100
// clients with 8 MB each stay under 2 GB.
func TestBarLargeBodies(t *testing.T) {
	const size = 8 << 20
	clients := times(16, 100)
	arrived, release := make(chan struct{}, clients), make(chan struct{})
	_, address := serve(t, Options{}, engineOn(t, func(w http.ResponseWriter, req *http.Request) {
		arrived <- struct{}{}
		<-release // its body is in warden still
		n, err := io.Copy(io.Discard, req.Body)
		if n < size || err != nil {
			t.Errorf("the engine got %d bytes, %v", n, err)
		}
		stream(w).finish()
	}))
	debug.FreeOSMemory()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		t.Skip("the peak cannot be reset: ", err)
	}
	before := peak(t)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	var sent sync.WaitGroup
	for range clients {
		sent.Go(func() {
			// No include_usage: warden asks for it itself, in the middle of the body.
			head, tail := `{"stream":true,"model":"`+testModel+`","messages":[{"role":"user","content":"`, `"}]}`
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+"/v1/chat/completions", &repeated{head, tail, size})
			if err != nil {
				t.Error(err)
				return
			}
			req.ContentLength = int64(len(head) + size + len(tail))
			req.Header.Set("Content-Type", "application/json")
			resp, err := client.Do(req)
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			if body, err := io.ReadAll(resp.Body); resp.StatusCode != 200 || err != nil {
				t.Errorf("%d %.200s %v", resp.StatusCode, body, err)
			}
		})
	}
	for range clients {
		<-arrived
	}
	used := peak(t) - before
	close(release)
	sent.Wait()
	t.Logf("%d clients with %d MiB each: %d MiB more at most", clients, size>>20, used>>20)
	if limit := int64(clients) * size * 5 / 4; used > limit+(64<<20) && !raced {
		t.Errorf("%d MiB for %d bodies of %d MiB", used>>20, clients, size>>20)
	}
}
