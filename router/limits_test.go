package router

import (
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// What warden itself has run out of is told as that, and no replica pays for it.
func TestOwnLimitsAreNoFaultOfAReplica(t *testing.T) {
	for _, limit := range []struct {
		call  string
		errno syscall.Errno
	}{{"socket", syscall.EMFILE}, {"socket", syscall.ENFILE}, {"epoll_ctl", syscall.ENOSPC}, {"connect", syscall.EADDRNOTAVAIL}} {
		t.Run(limit.errno.Error(), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				f := newFixture(t, setup{engines: 2})
				f.net.mu.Lock()
				f.net.refuse = &net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError(limit.call, limit.errno)}
				f.net.mu.Unlock()
				for range 3 {
					r := f.post("/v1/chat/completions", `{"model":"qwen3-4b","messages":[{"role":"user","content":"hi"}]}`)
					if r.status != http.StatusServiceUnavailable || !strings.Contains(r.body, "own_limit") || !strings.Contains(r.body, limit.errno.Error()) {
						t.Errorf("%d %s", r.status, r.body)
					}
					if strings.Contains(r.body, "r0") || strings.Contains(r.body, "r1") {
						t.Errorf("names a replica: %s", r.body)
					}
				}
				elapse(time.Second)
				if failures := f.noted(&f.failures); len(failures) > 0 {
					t.Errorf("reported as failures of %q", failures)
				}
				for _, r := range f.reported() {
					if r.Attempts != 1 || r.Replica != "" || r.Cause != "own_limit" {
						t.Errorf("%+v", r)
					}
				}
				for _, r := range f.router.Snapshot(0).Models[0].Replicas {
					if r.Errors > 0 {
						t.Errorf("%s counts %d errors", r.ID, r.Errors)
					}
				}
				f.net.mu.Lock()
				f.net.refuse = nil
				f.net.mu.Unlock()
				if replica, _ := f.chat("after"); replica == "" { // and none is paused
					t.Error("no answer once the limit is gone")
				}
			})
		})
	}
}
