package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lm-warden/warden/supervisor/events"
)

// textEngine is an Engine for processes that speak plainly: lines "phase NAME DONE/TOTAL" and "fatal: CAUSE",
// metrics "tokens N".
type textEngine struct{ argv []string }

func (e textEngine) Command(s Spec) (Command, error) {
	if len(s.Args) > 0 && s.Args[0] == "--impossible" {
		return Command{}, errors.New("--impossible is no flag")
	}
	return Command{Argv: append(e.argv, s.Args...), Env: []string{"PATH=/usr/bin:/bin", "HF_TOKEN=secret-token-value"}}, nil
}

func (textEngine) Phase(line string) (Phase, bool) {
	var p Phase
	if n, _ := fmt.Sscanf(line, "phase %s %d/%d", &p.Name, &p.Done, &p.Total); n >= 1 {
		return p, true
	}
	return p, false
}

func (textEngine) ParseStats(r io.Reader, at time.Time) (EngineStats, error) {
	s := EngineStats{At: at}
	_, err := fmt.Fscanf(r, "tokens %d\n", &s.GenerationTokens)
	return s, err
}

func (textEngine) Diagnose(lines []string, _ Exit) Diagnosis {
	for _, l := range lines {
		if cause, found := strings.CutPrefix(l, "fatal: "); found {
			return Diagnosis{Cause: cause, Permanent: true, Line: l}
		}
	}
	return Diagnosis{}
}

// memEngine is the HTTP side of one engine process, reached without a network so that it lives in synctest's time.
type memEngine struct {
	name     string
	health   atomic.Int64 // status to answer; 0 = 200
	stalled  atomic.Bool  // nothing answers, not even /health
	hung     atomic.Bool  // requests are not answered, everything else is
	tokens   atomic.Uint64
	requests atomic.Int64
	listener *memListener
	server   *http.Server
}

func newMemEngine(name string) *memEngine {
	e := &memEngine{name: name, listener: &memListener{conns: make(chan net.Conn), done: make(chan struct{})}}
	e.server = &http.Server{Handler: e}
	go e.server.Serve(e.listener)
	return e
}

func (e *memEngine) close() { e.server.Close() }

func (e *memEngine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if e.stalled.Load() || (e.hung.Load() && r.Method == http.MethodPost) {
		io.Copy(io.Discard, r.Body) // or the server would not notice that the client left
		<-r.Context().Done()
		return
	}
	switch r.URL.Path {
	case "/health":
		if s := e.health.Load(); s != 0 {
			w.WriteHeader(int(s))
		}
	case "/v1/models":
		json.NewEncoder(w).Encode(map[string]any{"data": []map[string]any{{"id": e.name, "max_model_len": 4096}}})
	case "/version":
		json.NewEncoder(w).Encode(map[string]any{"version": "1.2.3"})
	case "/metrics":
		fmt.Fprintf(w, "tokens %d\n", e.tokens.Load())
	case "/v1/completions":
		e.requests.Add(1)
		e.tokens.Add(1)
	default:
		http.Error(w, "no chat template", http.StatusBadRequest)
	}
}

type memListener struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func (l *memListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *memListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *memListener) Addr() net.Addr { return &net.UnixAddr{Name: "memory"} }

func (l *memListener) dial(ctx context.Context) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case l.conns <- theirs:
		return ours, nil
	case <-l.done:
		return nil, syscall.ECONNREFUSED
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// world is the launcher and the network of a test: engines that are started by it, and found or not by probes.
type world struct {
	t *testing.T

	load      time.Duration // before an engine listens
	silent    bool          // engines never listen
	refuseErr error         // Launch fails
	onStart   func(*fakeProcess)
	undying   bool // processes outlive SIGKILL
	existing  map[ReplicaID]*fakeProcess

	mu       sync.Mutex
	launches []Launch
	current  map[string]*fakeProcess // by address
}

func newWorld(t *testing.T) *world {
	return &world{t: t, current: map[string]*fakeProcess{}, existing: map[ReplicaID]*fakeProcess{}}
}

func (w *world) Launch(_ context.Context, l Launch) (Process, error) {
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

func (w *world) Adopt(_ context.Context, l Launch) (Process, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p := w.existing[l.ID]; p != nil {
		w.current[l.Address] = p
		return p, nil
	}
	return nil, ErrNothingToAdopt
}

func (w *world) Logs(context.Context, ReplicaID, LogQuery) iter.Seq2[LogLine, error] {
	return func(func(LogLine, error) bool) {}
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
	info   ProcessInfo
	events chan ProcessEvent
	wait   sync.WaitGroup

	mu     sync.Mutex
	engine *memEngine // nil = does not listen
	dying  bool
	dead   chan struct{}
	closed bool
}

func newFakeProcess(w *world, l Launch, pid int) *fakeProcess {
	return &fakeProcess{
		w: w, info: ProcessInfo{PID: pid, Generation: l.Generation, StartedAt: time.Now()},
		events: make(chan ProcessEvent, 100), dead: make(chan struct{}),
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

func (p *fakeProcess) Info() ProcessInfo           { return p.info }
func (p *fakeProcess) Events() <-chan ProcessEvent { return p.events }
func (p *fakeProcess) Stop(time.Duration)          { p.wait.Go(p.dieSoon) }
func (p *fakeProcess) Kill()                       { p.die(Exit{Signal: syscall.SIGKILL}) }

// dieSoon takes as long as an engine that needs some time to stop.
func (p *fakeProcess) dieSoon() {
	select {
	case <-time.After(50 * time.Millisecond):
		p.die(Exit{})
	case <-p.dead:
	}
}

func (p *fakeProcess) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
}

func (p *fakeProcess) line(text string) {
	p.events <- ProcessEvent{Kind: EngineLine, Line: LogLine{At: time.Now(), Text: text}}
}

// die ends the process and its tree, or fails to.
func (p *fakeProcess) die(e Exit) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dying {
		return
	}
	if p.w.undying {
		p.events <- ProcessEvent{Kind: EngineStuck, PIDs: []int{p.info.PID}}
		return
	}
	p.dying = true
	close(p.dead)
	if p.engine != nil {
		p.engine.close()
	}
	e.At = time.Now()
	p.events <- ProcessEvent{Kind: EngineExited, Exit: e}
	p.events <- ProcessEvent{Kind: EngineGone, Exit: e}
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

func specs(n int) []Spec {
	var out []Spec
	for i := range n {
		out = append(out, Spec{
			ID: ReplicaID(fmt.Sprintf("r%d", i)), Model: "m", Device: DeviceCUDA, Address: fmt.Sprintf("unix:/e/r%d", i),
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
		o := Options{Launcher: w, Bus: bus, Jitter: func() float64 { return 0.5 }, StateDir: t.TempDir()}
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
			p.die(Exit{})
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
func (f *fixture) reach(i int, want State, limit time.Duration) time.Duration {
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

func (f *fixture) replica(i int) Replica { return f.s.Snapshot()[i] }

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
