package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lm-warden/warden/supervisor/control"
)

// overSocket makes HTTP requests to a unix socket.
func overSocket(path string) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", path)
		},
	}}
}

// usage is what a process must not use more and more of.
type usage struct {
	goroutines, files int
	memory            int // resident, bytes
}

// usage asks the running warden, also after an upgrade.
func (w *running) usage() usage {
	w.t.Helper()
	v, err := w.client.Version(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	socket := overSocket(filepath.Join(w.home, "warden", "default", "control.sock"))
	profile := func(name string) string {
		resp, err := socket.Get("http://warden/debug/pprof/" + name)
		if err != nil {
			w.t.Fatal(err)
		}
		defer resp.Body.Close()
		content, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			w.t.Fatalf("%s: %d %v", name, resp.StatusCode, err)
		}
		return string(content)
	}
	profile("heap?gc=1")
	var u usage
	if _, err := fmt.Sscanf(profile("goroutine?debug=1"), "goroutine profile: total %d", &u.goroutines); err != nil {
		w.t.Fatal(err)
	}
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", v.PID))
	if err != nil {
		w.t.Fatal(err)
	}
	u.files = len(files)
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", v.PID))
	_, rss, _ := bytes.Cut(status, []byte("VmRSS:"))
	kib, err := strconv.Atoi(strings.Fields(string(rss))[0])
	if err != nil {
		w.t.Fatal(err)
	}
	u.memory = kib << 10
	return u
}

// usageAtRest waits until connections that were kept open are closed: engines
// close theirs after 5 s.
func (w *running) usageAtRest() usage {
	pause(6 * time.Second)
	return w.usage()
}

// checkUsage waits until a warden that has nothing to do uses no more than
// before: connections to engines stay open for some seconds.
func (w *running) checkUsage(before usage) {
	w.t.Helper()
	const allowed, memory = 5, 20 << 20
	var after usage
	deadline := time.Now().Add(30 * time.Second)
	for {
		after = w.usage()
		if after.goroutines <= before.goroutines+allowed && after.files <= before.files+allowed || time.Now().After(deadline) {
			break
		}
		pause(500 * time.Millisecond)
	}
	w.t.Logf("before %+v, after %+v", before, after)
	if after.goroutines > before.goroutines+allowed || after.files > before.files+allowed || after.memory > before.memory+memory {
		w.t.Errorf("leaks: before %+v, after %+v", before, after)
	}
}

// Figure 10: a fifth of many requests go wrong in every way there is, and
// nothing of them stays.
func TestFigureNoLeaks(t *testing.T) {
	w := start(t, "--dp", "2", "--max-num-seqs", "64", "--", "--sim-load", "200ms", "--sim-profile", "instant")
	c := w.newClient()
	const clients = 16
	burst := func(n int) {
		var done atomic.Int64
		var all sync.WaitGroup
		for i := range clients {
			all.Go(func() {
				for done.Add(1) <= int64(n) {
					c.mishap(t, fmt.Sprintf("leak-%d", i*20+rand.IntN(20)))
				}
			})
		}
		all.Wait()
		c.http.CloseIdleConnections()
		w.poll("nothing is held", func(s control.Status) bool { return s.Totals.Held == 0 })
	}
	burst(2000) // the heap finds its size
	before := w.usageAtRest()
	began := time.Now()
	n := rounds(10_000)
	burst(n)
	t.Logf("%d requests in %s", n, time.Since(began).Round(time.Millisecond))
	w.checkUsage(before)
}

// mishap is a request that goes wrong one time in five.
func (c *client) mishap(t *testing.T, session string) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	begin := func() {}
	text := "hello"
	switch rand.IntN(30) {
	case 0:
		text = "[[sim:error 500]]"
	case 1:
		text = "[[sim:reset 2]] hello"
	case 2:
		text = "[[sim:close 2]] hello"
	case 3:
		text = "[[sim:truncate 2]] hello"
	case 4: // the client goes away after the first byte
		begin = cancel
	case 5: // or before it
		text = "[[sim:delay 1s]] hello"
		time.AfterFunc(time.Duration(rand.IntN(20))*time.Millisecond, cancel)
	}
	c.stream(ctx, session, text, 8, begin)
}
