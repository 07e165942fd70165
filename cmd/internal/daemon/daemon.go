package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lm-warden/warden/cmd/internal/advise"
	"github.com/lm-warden/warden/cmd/internal/clients"
	"github.com/lm-warden/warden/cmd/internal/conns"
	"github.com/lm-warden/warden/cmd/internal/exit"
	"github.com/lm-warden/warden/cmd/internal/front"
	"github.com/lm-warden/warden/cmd/internal/gpuwatch"
	"github.com/lm-warden/warden/cmd/internal/metrics"
	"github.com/lm-warden/warden/cmd/internal/paths"
	"github.com/lm-warden/warden/cmd/internal/plan"
	"github.com/lm-warden/warden/cmd/internal/portowner"
	"github.com/lm-warden/warden/cmd/internal/service"
	"github.com/lm-warden/warden/configs"
	"github.com/lm-warden/warden/router"
	"github.com/lm-warden/warden/router/socket"
	"github.com/lm-warden/warden/supervisor"
	"github.com/lm-warden/warden/supervisor/control"
	"github.com/lm-warden/warden/supervisor/events"
	"github.com/lm-warden/warden/supervisor/keep"
	"github.com/lm-warden/warden/supervisor/launch"
)

// recentEvents is how many events a new watcher sees.
const recentEvents = 200

// Options say what a daemon is to serve. Config and Log are required.
type Options struct {
	Config configs.Config
	Log    *slog.Logger
	// Version and Revision of this program, as it tells them.
	Version, Revision string
	// DemoSessions is how many agent sessions play on the own API: `up --demo`.
	DemoSessions int
}

// Daemon is a running warden: its parts, and the order they start and stop in.
// wire.go connects them, status.go describes them.
type Daemon struct {
	opts    Options
	cfg     configs.Config // of opts; Listen becomes the real address
	log     *slog.Logger
	started time.Time
	models  []plan.Model

	bus       *events.Bus
	gpus      *gpuwatch.Watch
	sup       *keep.Supervisor
	router    *router.Router
	control   *control.Server
	api       net.Listener
	front     *front.Front
	engines   *engineRates
	recorder  *advise.Recorder
	metrics   *metrics.Exporter
	service   *service.Service
	facts     *replicaFacts
	recorders recorders

	upgrading sync.Mutex    // held while a successor is started
	next      *successor    // set before leaving is closed
	before    *predecessor  // nil unless this warden took over from another
	unwaited  chan struct{} // closed when nobody waits for this process to end
	forsaken  sync.Once

	saving sync.Mutex
	saved  []byte // content of the sessions file, guarded by saving

	stopOnce sync.Once     // for stopping and leaving: the first of them counts
	stopping chan struct{} // closed when a stop was ordered
	leaving  chan struct{} // closed when a successor is ready
	drain    time.Duration // of that stop
	killed   chan struct{} // closed when held requests are to be dropped
	killOnce sync.Once
	adopted  chan struct{} // closed when engines left by an earlier warden are known
	reaped   chan struct{} // closed when no engine is left
	ended    chan struct{} // closed when Run returned
}

// New claims the addresses, looks at the machine and plans the replicas.
// Nothing runs yet, but a second warden of the same name is refused from here.
func New(opts Options) (*Daemon, error) {
	d := empty(opts)
	runtime, err := paths.MakeRuntimeDir(d.cfg.Name)
	if err != nil {
		return nil, err
	}
	if err := d.claim(nil); err != nil {
		return nil, err
	}
	if err := d.prepare(runtime, nil); err != nil {
		return nil, errors.Join(err, d.release())
	}
	if err := d.assemble(runtime); err != nil {
		return nil, errors.Join(err, d.release())
	}
	return d, nil
}

func empty(opts Options) *Daemon {
	return &Daemon{
		opts: opts, cfg: opts.Config, log: opts.Log, started: time.Now(),
		bus: events.NewBus(recentEvents), engines: newEngineRates(), service: service.New(opts.Log),
		recorder: advise.NewRecorder(time.Now()),
		stopping: make(chan struct{}), leaving: make(chan struct{}), killed: make(chan struct{}),
		unwaited: make(chan struct{}), adopted: make(chan struct{}), reaped: make(chan struct{}), ended: make(chan struct{}),
	}
}

// claim takes the control socket: only one warden of a name can. lock is from
// the warden before, or nil.
func (d *Daemon) claim(lock *os.File) (err error) {
	d.control, err = control.Listen(control.ServerOptions{
		Socket: paths.ControlSocket(d.cfg.Name), Daemon: d, Bus: d.bus, Log: d.log, Lock: lock,
	})
	return err
}

// prepare does what can fail before anything starts. passed is the API's socket
// from the warden before, or nil.
func (d *Daemon) prepare(runtime string, passed net.Listener) (err error) {
	if d.api, err = takeListener(d.cfg.Listen, passed); err != nil {
		return err
	}
	d.cfg.Listen = d.api.Addr().String() // port 0 became a real one
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if d.front, err = d.newFront(); err != nil {
		return err
	}
	if d.gpus, err = gpuwatch.New(ctx, d.cfg, d.bus, d.log); err != nil {
		return err
	}
	if d.models, err = plan.Models(d.cfg, d.gpus.Inventory(), runtime); err != nil {
		return err
	}
	d.router, err = d.newRouter()
	return err
}

// assemble makes the supervisor, which reads what the one before it has noted.
func (d *Daemon) assemble(runtime string) (err error) {
	d.loadSessions()
	if d.sup, err = d.newSupervisor(runtime); err != nil {
		return err
	}
	d.gpus.SimulateLoad(d.sup.Snapshot)
	d.gpus.Connect(d.sup, d.bus)
	return nil
}

// release gives back what New claimed, when Run is never called.
func (d *Daemon) release() error {
	if d.control != nil {
		d.control.Close()
	}
	if d.router != nil {
		d.router.Close()
	}
	var err error
	if d.api != nil {
		err = d.api.Close()
	}
	if d.gpus != nil {
		err = errors.Join(err, d.gpus.Close())
	}
	return err
}

// listen binds the API's address, or says who holds it.
func listen(address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err == nil {
		return l, nil
	}
	what := fmt.Errorf("cannot listen on %s: %w", address, err)
	var bind *net.OpError
	if errors.As(err, &bind) {
		what = fmt.Errorf("cannot listen on %s: %w", address, bind.Err)
	}
	host, portText, _ := net.SplitHostPort(address)
	port, _ := net.LookupPort("tcp", portText)
	if owner, ok := portowner.Find(port); ok {
		what = fmt.Errorf("cannot listen on %s: used by %s", address, owner)
	}
	return nil, exit.Fail(exit.Preflight, what, fmt.Sprintf("`--listen %s`, or stop it", net.JoinHostPort(host, fmt.Sprint(port+1))))
}

// Run serves until ctx ends, Stop or Kill is called, and returns when the last
// engine is reaped and the last goroutine has ended.
func (d *Daemon) Run(ctx context.Context) error {
	defer close(d.ended)
	defer d.before.close()
	defer d.useFewProcessors()()
	defer collectLess(os.Getenv("GOGC"))()
	alive, cancel := context.WithCancel(context.Background())
	defer cancel()
	d.logStart()
	open := conns.NewOpen()
	server := router.NewServer(d.closing(d.router))
	crowd := conns.NewCrowd(socket.Listen(d.api), conns.Limit(), d.log)
	server.ConnState = func(c net.Conn, state http.ConnState) {
		if state == http.StateHijacked {
			state = http.StateActive // for the rest of a stream: it comes back or is closed (keepalive)
		}
		open.Track(c, state)
		crowd.Track(c, state)
	}
	var group errgroup.Group
	finish := d.recorders.start()
	left := plan.LeftEngines(paths.RuntimeDir(d.cfg.Name))
	group.Go(func() error {
		d.awaitAdoption(left)
		close(d.adopted)
		return notClosed(d.front.Serve(server, crowd))
	})
	group.Go(func() error { return d.control.Serve(context.Background()) })
	group.Go(func() error { d.gpus.Run(alive, d.bus); return nil })
	group.Go(func() error { d.playDemo(d.untilStop(alive)); return nil })
	group.Go(func() error {
		select {
		case <-ctx.Done():
			d.Stop(d.cfg.Drain)
		case <-d.stopping:
		case <-d.leaving:
		}
		select {
		case <-d.leaving:
			return d.handOver(ctx, server, open, cancel)
		default:
			d.shutDown(server, open, cancel)
			return nil
		}
	})
	group.Go(func() error {
		d.service.Run(alive, d.serviceFacts, d.front.Probe(clients.Reachable(d.url())))
		return nil
	})
	group.Go(func() error { d.front.Watch(alive); return nil })
	group.Go(func() error { d.keepSessions(alive); return nil })
	group.Go(func() error { d.remember(alive); return nil })
	d.sweep()
	err := d.sup.Run(alive)
	close(d.reaped)
	d.Stop(0) // when the supervisor ended by itself
	err = errors.Join(err, group.Wait(), finish())
	d.log.Info("warden ends", "pid", pid)
	return err
}

func (d *Daemon) logStart() {
	message := "warden starts"
	if d.before != nil {
		message = "warden takes over"
	}
	d.log.Info(message, "pid", pid, "version", d.opts.Version, "listen", d.cfg.Listen, "replicas", len(d.sup.Snapshot()))
}

// sweep ends the engines of replicas that the plan no longer has; those it has
// are adopted, or ended where they do not fit, by the supervisor.
func (d *Daemon) sweep() {
	var planned []supervisor.ReplicaID
	for _, r := range d.sup.Snapshot() {
		planned = append(planned, r.ID)
	}
	ended, err := launch.Sweep(context.Background(), paths.RuntimeDir(d.cfg.Name), planned...)
	for _, what := range ended {
		d.bus.Publish(events.Event{Kind: events.KindExited, Text: what + " was ended: the configuration no longer has it"})
	}
	if err != nil {
		d.log.Error("what an earlier warden left could not be ended", "err", err)
	}
}

// untilStop is a context that also ends when a stop is ordered.
func (d *Daemon) untilStop(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		select {
		case <-d.stopping:
		case <-ctx.Done():
		}
	}()
	return ctx
}

// allReady says whether every replica takes requests.
func (d *Daemon) allReady() bool {
	return !slices.ContainsFunc(d.sup.Snapshot(), func(r supervisor.Replica) bool { return r.State != supervisor.Ready })
}

func notClosed(err error) error {
	if errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// Stop orders the end: no new requests, held ones may take drain to finish.
// Later calls do nothing.
func (d *Daemon) Stop(drain time.Duration) {
	d.stopOnce.Do(func() {
		d.drain = drain
		close(d.stopping)
	})
}

// Name is which of the user's wardens this is.
func (d *Daemon) Name() string { return d.cfg.Name }

// Stopping is closed when a stop was ordered; DrainTime is valid from then on.
func (d *Daemon) Stopping() <-chan struct{} { return d.stopping }

// DrainTime is how long held requests may take to finish.
func (d *Daemon) DrainTime() time.Duration { return d.drain }

// NobodyWaits notes that no process waits for this one to end.
func (d *Daemon) NobodyWaits() { d.forsaken.Do(func() { close(d.unwaited) }) }

// Kill orders the end without waiting for held requests, also during a drain.
func (d *Daemon) Kill() {
	d.killOnce.Do(func() { close(d.killed) })
	d.Stop(0)
}

// KillOn kills when forced opens, and returns when the daemon has ended.
func (d *Daemon) KillOn(forced <-chan struct{}) {
	select {
	case <-forced:
		d.Kill()
	case <-d.ended:
	}
}

// Held is how many requests are in flight.
func (d *Daemon) Held() int {
	held := 0
	for _, r := range d.sup.Snapshot() {
		held += d.work(r.ID).Held
	}
	return held
}
