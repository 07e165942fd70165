package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lm-warden/warden/supervisor/control"
)

// connectMany opens n connections and sends each some bytes; they are closed at the
// end of the test.
func (w *running) connectMany(n int, first string) []net.Conn {
	w.t.Helper()
	conns := make([]net.Conn, n)
	var all sync.WaitGroup
	const atOnce = 64
	for lane := range atOnce {
		all.Go(func() {
			for i := lane; i < n; i += atOnce {
				conn, err := net.DialTimeout("tcp", strings.TrimPrefix(w.url, "http://"), 10*time.Second)
				if err != nil {
					w.t.Errorf("connection %d: %v", i, err)
					return
				}
				_, _ = io.WriteString(conn, first) // warden may have refused it already
				conns[i] = conn
			}
		})
	}
	all.Wait()
	w.t.Cleanup(func() {
		for _, conn := range conns {
			if conn != nil {
				conn.Close()
			}
		}
	})
	return conns
}

// served sends turns one after another and says how long the slowest took.
func (w *running) served(n int) (slowest time.Duration) {
	w.t.Helper()
	c := w.newClient()
	for i := range n {
		one := c.stream(w.t.Context(), fmt.Sprintf("beside-%d", i), "hello", 2, nil)
		if !one.complete() {
			w.t.Errorf("turn %d beside the attack: %s", i, one)
		}
		slowest = max(slowest, one.ended.Sub(one.began))
	}
	c.http.CloseIdleConnections()
	return slowest
}

// Clients that send their headers or bodies byte by byte, or read nothing of
// their answers, hold nobody up, and those without a whole head are gone after
// 10 s. How bodies and readers are cut is proven in virtual time by the router.
func TestAttackSlowClients(t *testing.T) {
	w := start(t, "--dp", "1", "--max-num-seqs", "64", "--", "--sim-load", "200ms")
	const each = 100
	began := time.Now()
	heads := w.connectMany(each, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
	w.connectMany(each, crlf("POST /v1/chat/completions HTTP/1.1\nHost: localhost\nContent-Type: application/json\nContent-Length: 1000000\n\n")+`{"model":`)
	body := `{"model":"qwen3-4b","stream":true,"max_tokens":500,"ignore_eos":true,"messages":[{"role":"user","content":"x"}]}`
	w.connectMany(each/4, crlf(fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\nHost: localhost\nContent-Type: application/json\nContent-Length: %d\n\n", len(body)))+body)
	slowest := time.Duration(0)
	for time.Since(began) < 13*time.Second {
		slowest = max(slowest, w.served(5))
		for _, conn := range heads {
			_, _ = conn.Write([]byte("a"))
		}
		pause(200 * time.Millisecond)
	}
	t.Logf("the slowest turn beside %d slow clients took %s", 2*each+each/4, slowest)
	gone := 0
	for _, conn := range heads {
		_ = conn.SetReadDeadline(time.Now().Add(time.Second))
		if _, err := io.Copy(io.Discard, conn); err == nil || !strings.Contains(err.Error(), "timeout") {
			gone++
		}
	}
	if gone != each {
		t.Errorf("%d of %d slow heads are gone after 13 s", gone, each)
	}
	if slowest > 5*time.Second {
		t.Errorf("a turn took %s beside slow clients", slowest)
	}
}

// Connections come and go as fast as they can, some with half a request: after
// it nothing is left.
func TestAttackFlood(t *testing.T) {
	w := start(t, "--dp", "1")
	w.served(5)
	before := w.usageAtRest()
	n := rounds(5000)
	var all sync.WaitGroup
	const atOnce = 32
	for lane := range atOnce {
		all.Go(func() {
			for i := lane; i < n; i += atOnce {
				conn, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
				if err != nil {
					t.Errorf("connection %d: %v", i, err)
					return
				}
				_, _ = io.WriteString(conn, []string{"", "GET", "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{"}[i%3])
				conn.Close()
			}
		})
	}
	took := w.served(20)
	all.Wait()
	t.Logf("%d connections; the slowest turn beside them took %s", n, took)
	w.poll("nothing is held", idle)
	w.checkUsage(before)
}

// 10,000 connections that say nothing, more than the limit of open files has
// room for: others are served all the same, and `warden status` answers.
func TestAttackIdleConnections(t *testing.T) {
	const crowdSize, room = 10_000, 500
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil || limit.Cur < crowdSize+room {
		t.Skipf("this test needs %d open files itself, the limit is %d (ulimit -n)", crowdSize+room, limit.Cur)
	}
	w := start(t, "--dp", "1")
	w.served(5)
	before := w.usageAtRest()
	conns := w.connectMany(crowdSize, "")
	full := w.usage()
	pause(1100 * time.Millisecond) // from here on a quiet connection may be given up for another
	slowest := w.served(20)
	t.Logf("%d idle connections: %d files, %d goroutines, %.1f KiB each; the slowest turn beside them took %s", crowdSize, full.files, full.goroutines,
		float64(full.memory-before.memory)/crowdSize/1024, slowest)
	if full.files < crowdSize/2 {
		t.Errorf("only %d files are open", full.files)
	}
	if out, code := w.runCommand("status"); code != 0 || !strings.Contains(out, "r0") {
		t.Errorf("status beside the crowd: %d %s", code, out)
	}
	for _, conn := range conns {
		conn.Close()
	}
	await(t, 30*time.Second, "the connections are gone", func() bool { u := w.usage(); return u.files <= before.files+5 })
	for _, r := range w.poll("nothing is held", idle).Replicas {
		if r.State != control.StateReady || r.Restarts != 0 {
			t.Errorf("%s is %s after %d restarts", r.ID, r.State, r.Restarts)
		}
	}
	if resp, err := http.Get(w.url + "/healthz"); err != nil || resp.StatusCode != 200 {
		t.Errorf("healthz: %v", err)
	} else {
		resp.Body.Close()
	}
}
