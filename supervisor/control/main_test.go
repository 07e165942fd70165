package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lm-warden/warden/supervisor/events"
	"go.uber.org/goleak"
)

// dialAsEnv makes the test binary a client of another user: "uid:socket". It prints the error it gets.
const dialAsEnv = "CONTROL_TEST_DIAL_AS"

func TestMain(m *testing.M) {
	if arg := os.Getenv(dialAsEnv); arg != "" {
		os.Exit(dialAs(arg))
	}
	goleak.VerifyTestMain(m)
}

func dialAs(arg string) int {
	var uid int
	var socket string
	if _, err := fmt.Sscanf(arg, "%d:%s", &uid, &socket); err != nil {
		fmt.Println("bad argument:", err)
		return 2
	}
	if err := syscall.Setuid(uid); err != nil {
		fmt.Println("setuid:", err)
		return 2
	}
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	c, err := Dial(ctx, socket)
	if err == nil {
		c.Close()
	}
	var refused *Error
	var denied *PermissionError
	switch {
	case errors.As(err, &refused):
		fmt.Print("refused ", refused.Code)
	case errors.As(err, &denied):
		fmt.Print("denied ", denied)
	default:
		fmt.Print("other ", err)
	}
	return 0
}

// testTimeout only ends a test that would hang.
const testTimeout = 20 * time.Second

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	t.Cleanup(cancel)
	return ctx
}

// socketPath is short: a test's own name may not fit into 107 bytes.
func socketPath(t *testing.T) string {
	dir, err := os.MkdirTemp("", "wc")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "s.sock")
}

// fakeDaemon answers from its fields and remembers the orders it got.
type fakeDaemon struct {
	mu     sync.Mutex
	status Status
	lines  []LogLine
	orders []string
	err    error
}

func (f *fakeDaemon) order(format string, args ...any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.orders = append(f.orders, fmt.Sprintf(format, args...))
	return f.err
}

func (f *fakeDaemon) Status() Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.status
}

func (f *fakeDaemon) Version() Version {
	return Version{Version: "0.0.1-test", PID: os.Getpid(), Details: map[string]string{"vllm": "0.26.0"}}
}

func (f *fakeDaemon) Config() (Config, error) {
	return json.RawMessage(`{"listen":"127.0.0.1:8000"}`), nil
}

func (f *fakeDaemon) Logs(ctx context.Context, q LogQuery) iter.Seq2[LogLine, error] {
	return func(yield func(LogLine, error) bool) {
		err := f.order("logs %v tail %d follow %t previous %t", q.Replicas, q.Tail, q.Follow, q.Previous)
		for _, l := range f.lines {
			if !yield(l, nil) {
				return
			}
		}
		if err != nil {
			yield(LogLine{}, err)
			return
		}
		if q.Follow {
			<-ctx.Done()
			yield(LogLine{}, ctx.Err())
		}
	}
}

func (f *fakeDaemon) SetAffinity(_ context.Context, model string, on bool) (AffinityChange, error) {
	err := f.order("affinity %s %t", model, on)
	return AffinityChange{Model: model, Old: PolicyAffinity, New: PolicyBalance, SessionsLive: 24}, err
}

func (f *fakeDaemon) SetPolicy(_ context.Context, model, policy string) (AffinityChange, error) {
	err := f.order("policy %s %s", model, policy)
	return AffinityChange{Model: model, Old: PolicyAffinity, New: policy}, err
}

func (f *fakeDaemon) SetSpillLimit(_ context.Context, model string, limit int) (SpillChange, error) {
	err := f.order("spill %s %d", model, limit)
	return SpillChange{Model: model, Old: 8, New: limit}, err
}

func (f *fakeDaemon) Replica(_ context.Context, id string, action ReplicaAction) (Accepted, error) {
	err := f.order("%s %s", action, id)
	return Accepted{Replica: id, Action: action, Generation: 3}, err
}

func (f *fakeDaemon) Shutdown(_ context.Context, req ShutdownRequest) error {
	return f.order("shutdown drain %s now %t", time.Duration(req.Drain), req.Now)
}

// serve runs a server until the test ends and returns a client of it.
func serve(t *testing.T, opts ServerOptions) (*Server, *Client) {
	t.Helper()
	if opts.Socket == "" {
		opts.Socket = socketPath(t)
	}
	if opts.Bus == nil {
		opts.Bus = events.NewBus(recentEvents)
	}
	if opts.Daemon == nil {
		opts.Daemon = &fakeDaemon{}
	}
	s, err := Listen(opts)
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.Serve(context.Background()); err != nil {
			t.Error(err)
		}
	})
	c := newClient(opts.Socket)
	t.Cleanup(func() {
		c.Close()
		s.Close()
		running.Wait()
	})
	return s, c
}
