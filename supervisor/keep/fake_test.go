package keep

import (
	"context"
	"fmt"
	"iter"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lm-warden/warden/supervisor"
	"github.com/lm-warden/warden/supervisor/events"
)

// t0 is a moment for tests that need no clock.
var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func half() float64 { return 0.5 }

// world is the launcher and the network of a test: engines that are started by it, and found or not by probes.
type world struct {
	t *testing.T

	load      time.Duration // before an engine listens
	silent    bool          // engines never listen
	refuseErr error         // Launch fails
	onStart   func(*fakeProcess)
	undying   bool // processes outlive SIGKILL
	existing  map[supervisor.ReplicaID]*fakeProcess

	mu       sync.Mutex
	launches []supervisor.Launch
	current  map[string]*fakeProcess // by address
}

func newWorld(t *testing.T) *world {
	return &world{t: t, current: map[string]*fakeProcess{}, existing: map[supervisor.ReplicaID]*fakeProcess{}}
}

func (w *world) Launch(_ context.Context, l supervisor.Launch) (supervisor.Process, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.launches = append(w.launches, l)
	if w.refuseErr != nil {
		return nil, w.refuseErr
	}
	p := newFakeProcess(w, l, len(w.launches))
	w.current[l.Address] = p
	if w.onStart != nil {
		go w.onStart(p)
	}
	if !w.silent {
		p.wait.Go(p.listenLater)
	}
	return p, nil
}

func (w *world) Adopt(_ context.Context, l supervisor.Launch) (supervisor.Process, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p := w.existing[l.ID]; p != nil {
		w.current[l.Address] = p
		return p, nil
	}
	return nil, supervisor.ErrNothingToAdopt
}

func (w *world) Logs(context.Context, supervisor.ReplicaID, supervisor.LogQuery) iter.Seq2[supervisor.LogLine, error] {
	return func(func(supervisor.LogLine, error) bool) {}
}

func (w *world) starts() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.launches)
}

// process is the present process of a replica.
func (w *world) process(address string) *fakeProcess {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.current[address]
}

func (w *world) dial(ctx context.Context, _, address string) (net.Conn, error) {
	p := w.process("unix:" + address)
	if p == nil {
		return nil, syscall.ECONNREFUSED
	}
	p.mu.Lock()
	e := p.engine
	p.mu.Unlock()
	if e == nil {
		return nil, syscall.ECONNREFUSED
	}
	return e.listener.dial(ctx)
}

// fakeProcess is an engine without a process.
type fakeProcess struct {
	w      *world
	info   supervisor.ProcessInfo
	events chan supervisor.ProcessEvent
	wait   sync.WaitGroup

	mu     sync.Mutex
	engine *memEngine // nil = does not listen
	dying  bool
	dead   chan struct{}
	closed bool
}

func newFakeProcess(w *world, l supervisor.Launch, pid int) *fakeProcess {
	return &fakeProcess{
		w: w, info: supervisor.ProcessInfo{PID: pid, Generation: l.Generation, StartedAt: time.Now()},
		events: make(chan supervisor.ProcessEvent, 100), dead: make(chan struct{}),
	}
}

func (p *fakeProcess) listenLater() {
	select {
	case <-time.After(p.w.load):
		p.mu.Lock()
		defer p.mu.Unlock()
		if !p.dying {
			p.engine = newMemEngine("m")
		}
	case <-p.dead:
	}
}

func (p *fakeProcess) Info() supervisor.ProcessInfo { return p.info }

func (p *fakeProcess) Events() <-chan supervisor.ProcessEvent { return p.events }

func (p *fakeProcess) Stop(time.Duration) { p.wait.Go(p.dieSoon) }

func (p *fakeProcess) Kill() { p.die(supervisor.Exit{Signal: syscall.SIGKILL}) }

// dieSoon takes as long as an engine that needs some time to stop.
func (p *fakeProcess) dieSoon() {
	select {
	case <-time.After(50 * time.Millisecond):
		p.die(supervisor.Exit{})
	case <-p.dead:
	}
}

func (p *fakeProcess) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
}

func (p *fakeProcess) line(text string) {
	p.events <- supervisor.ProcessEvent{Kind: supervisor.EngineLine, Line: supervisor.LogLine{At: time.Now(), Text: text}}
}

// die ends the process and its tree, or fails to.
func (p *fakeProcess) die(e supervisor.Exit) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dying {
		return
	}
	if p.w.undying {
		p.events <- supervisor.ProcessEvent{Kind: supervisor.EngineStuck, PIDs: []int{p.info.PID}}
		return
	}
	p.dying = true
	close(p.dead)
	if p.engine != nil {
		p.engine.close()
	}
	e.At = time.Now()
	p.events <- supervisor.ProcessEvent{Kind: supervisor.EngineExited, Exit: e}
	p.events <- supervisor.ProcessEvent{Kind: supervisor.EngineGone, Exit: e}
	close(p.events)
}

// fixture is a supervisor in synctest's time.
type fixture struct {
	t     *testing.T
	w     *world
	s     *Supervisor
	bus   *events.Subscription
	done  chan error
	stop  context.CancelFunc
	begun time.Time
}

func specs(n int) []supervisor.Spec {
	var out []supervisor.Spec
	for i := range n {
		out = append(out, supervisor.Spec{
			ID: supervisor.ReplicaID(fmt.Sprintf("r%d", i)), Model: "m", Device: supervisor.DeviceCUDA, Address: fmt.Sprintf("unix:/e/r%d", i),
			Engine: textEngine{argv: []string{"engine"}}, GPUUUIDs: []string{fmt.Sprintf("GPU-%d", i)},
		})
	}
	return out
}

// inBubble runs a test in synctest's time with a supervisor over n replicas, and shuts it down at the end.
func inBubble(t *testing.T, n int, prepare func(*world, *Options), test func(*fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		bus := events.NewBus(1000)
		o := Options{Launcher: w, Bus: bus, Jitter: half, StateDir: t.TempDir()}
		if prepare != nil {
			prepare(w, &o)
		}
		s, err := New(specs(n), o)
		if err != nil {
			t.Fatal(err)
		}
		s.dial = w.dial
		for _, r := range s.replicas {
			r.dial = w.dial
		}
		ctx, cancel := context.WithCancel(t.Context())
		f := &fixture{t: t, w: w, s: s, bus: bus.Subscribe(10000), done: make(chan error, 1), stop: cancel, begun: time.Now()}
		go func() { f.done <- s.Run(ctx) }()
		test(f)
		w.mu.Lock()
		w.undying = false
		w.mu.Unlock()
		s.KillAll()
		if err := <-f.done; err != nil && !strings.Contains(err.Error(), "cannot be killed") {
			t.Errorf("Run: %v", err)
		}
		cancel()
		for _, p := range w.current {
			p.die(supervisor.Exit{})
			p.wait.Wait()
		}
		f.bus.Close()
	})
}

// sleep passes time.
func (f *fixture) sleep(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// reach passes time until replica i is in the state, at most for limit, and returns how long it took.
func (f *fixture) reach(i int, want supervisor.State, limit time.Duration) time.Duration {
	f.t.Helper()
	begun := time.Now()
	for time.Since(begun) <= limit {
		synctest.Wait()
		if f.replica(i).State == want {
			return time.Since(begun)
		}
		<-time.After(10 * time.Millisecond)
	}
	now := f.replica(i)
	f.t.Fatalf("r%d is %s (%s) after %s, want %s", i, now.State, now.Note, limit, want)
	return 0
}

func (f *fixture) replica(i int) supervisor.Replica { return f.s.Snapshot()[i] }

func (f *fixture) process(i int) *fakeProcess { return f.w.process(fmt.Sprintf("unix:/e/r%d", i)) }

func (f *fixture) engine(i int) *memEngine {
	p := f.process(i)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.engine
}

// happened returns the texts of the events of a kind so far.
func (f *fixture) happened(kind events.Kind) []string {
	f.t.Helper()
	var out []string
	for _, e := range f.s.opts.Bus.Recent(0) {
		if e.Kind == kind {
			out = append(out, e.Replica+" "+e.Text)
		}
	}
	return out
}
