package router

import (
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// What one request costs while it lasts, over real sockets: goroutines and
// memory are counted, nothing is timed.

// onSockets serves a Router on a TCP address in front of an engine on a unix
// socket.
func onSockets(t *testing.T, o Options, answer http.HandlerFunc) (r *Router, address string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "r0.sock")
	back, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	front, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r = New(o)
	if err := r.SetModels([]Model{{Alias: testModel}}); err != nil {
		t.Fatal(err)
	}
	if err := r.SetReplicas(testModel, []Replica{{ID: "r0", Address: "unix:" + path, Accepting: true, MaxNumSeqs: 4096}}); err != nil {
		t.Fatal(err)
	}
	engine, server := &http.Server{Handler: answer}, NewServer(r)
	var served sync.WaitGroup
	served.Go(func() { _ = engine.Serve(back) })
	served.Go(func() { _ = server.Serve(front) })
	t.Cleanup(func() {
		r.Close()
		_ = server.Close()
		_ = engine.Close()
		served.Wait()
	})
	return r, front.Addr().String()
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
	_, address := onSockets(t, Options{}, func(w http.ResponseWriter, req *http.Request) {
		arrived <- struct{}{}
		<-release // its body is in warden still
		n, err := io.Copy(io.Discard, req.Body)
		if n < size || err != nil {
			t.Errorf("the engine got %d bytes, %v", n, err)
		}
		stream(w).finish()
	})
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
	if limit := int64(clients) * size * 5 / 4; used > limit+(64<<20) {
		t.Errorf("%d MiB for %d bodies of %d MiB", used>>20, clients, size>>20)
	}
}
