package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/lm-warden/warden/cmd/internal/conns"
	"github.com/lm-warden/warden/cmd/internal/exit"
	"github.com/lm-warden/warden/cmd/internal/handover"
	"github.com/lm-warden/warden/cmd/internal/paths"
	"github.com/lm-warden/warden/cmd/internal/self"
	"github.com/lm-warden/warden/supervisor"
	"github.com/lm-warden/warden/supervisor/control"
	"github.com/lm-warden/warden/supervisor/events"
)

const (
	// takeoverLimit is for the new warden to look at the machine and plan.
	takeoverLimit = 60 * time.Second
	// lastAnswers bounds how long answers of the old warden may take to end.
	lastAnswers = 10 * time.Minute
)

// successor is the warden that takes over from this one.
type successor struct {
	cmd   *exec.Cmd
	link  *handover.Link
	ended chan struct{} // closed when the process has ended
}

// Upgrade starts the successor and, once it is ready, begins to leave.
func (d *Daemon) Upgrade(context.Context) (control.Upgraded, error) {
	if !d.upgrading.TryLock() {
		return control.Upgraded{}, &control.Error{Code: control.CodeWrongState, Message: "an upgrade is going on", Hint: "wait for it"}
	}
	defer d.upgrading.Unlock()
	if err := d.orderable(); err != nil {
		return control.Upgraded{}, err
	}
	next, err := d.startSuccessor()
	if err == nil && !d.leave(next) {
		next.dismiss()
	}
	if d.isStopping() { // meanwhile: whatever failed, failed of that
		err = errStopping()
	}
	if err != nil {
		d.bus.Publish(events.Event{Kind: "upgrade", Text: "upgrade failed: " + err.Error()})
		d.log.Error("upgrade failed; nothing has changed", "err", err)
		return control.Upgraded{}, wireError(err)
	}
	return control.Upgraded{PID: next.cmd.Process.Pid}, nil
}

// orderable refuses orders to a warden that is on its way out: a moment later
// they reach the one that takes over, or nobody.
func (d *Daemon) orderable() error {
	select {
	case <-d.stopping:
		return errStopping()
	case <-d.leaving:
		return &control.Error{Code: control.CodeWrongState, Message: "another warden is taking over", Hint: "try again: that one takes the order"}
	default:
		return nil
	}
}

func errStopping() error {
	return &control.Error{Code: control.CodeWrongState, Message: "warden is stopping", Hint: "once it has ended: `warden up`"}
}

// isStopping says whether a stop was ordered.
func (d *Daemon) isStopping() bool {
	select {
	case <-d.stopping:
		return true
	default:
		return false
	}
}

// wireError lets the way out travel with the refusal.
func wireError(err error) error {
	var refused *control.Error
	if errors.As(err, &refused) {
		return err
	}
	return &control.Error{Code: control.CodeInternal, Message: err.Error(), Hint: exit.HintOf(err)}
}

// UpgradeOn treats every SIGHUP as an order to upgrade whichever warden is the
// last.
func (d *Daemon) UpgradeOn(hangups <-chan struct{}) {
	for {
		select {
		case <-d.ended:
			return
		case <-hangups:
		}
		select {
		case <-d.leaving:
			_ = d.next.cmd.Process.Signal(syscall.SIGHUP) // it may have ended
		default:
			_, _ = d.Upgrade(context.Background()) // it has logged its failure
		}
	}
}

// startSuccessor runs this program anew and waits until it is ready.
func (d *Daemon) startSuccessor() (*successor, error) {
	program, err := self.File()
	if err != nil {
		return nil, err
	}
	link, theirs, err := handover.New()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	cmd := exec.Command(program, takeoverArgs(os.Args[1:])...)
	cmd.Env = successorEnv(os.Environ())
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{theirs, d.control.Lock()} // takeoverFD, lockFD
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}  // signals of a terminal reach it through us
	if err := cmd.Start(); err != nil {
		link.Close()
		return nil, exit.Fail(exit.Start, fmt.Errorf("cannot start the new warden: %w", err), "install the new program at "+program)
	}
	s := &successor{cmd: cmd, link: link, ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		_ = cmd.Wait() // ProcessState keeps how it ended
	}()
	theirs.Close() // so that its end shows
	prepared := make(chan struct{})
	go func() {
		select {
		case <-d.stopping:
			link.Close() // a stop does not wait for one that may never be ready
		case <-prepared:
		}
	}()
	err = s.prepare(d)
	close(prepared)
	if err != nil {
		s.dismiss()
		return nil, s.explain(err)
	}
	return s, nil
}

func (s *successor) prepare(d *Daemon) error {
	if err := s.link.SendListener(d.api); err != nil {
		return errors.Join(errSilentEnd, err)
	}
	rep, err := s.link.ReceiveReport(takeoverLimit)
	if err != nil {
		return errors.Join(errSilentEnd, err)
	}
	return rep.Err()
}

// errSilentEnd is a successor that ended, or was ended, without a report.
var errSilentEnd = errors.New("no report from the new warden")

// explain says how a dismissed successor ended, unless it told the reason itself.
func (s *successor) explain(err error) error {
	if !errors.Is(err, errSilentEnd) {
		return err
	}
	how := "ended before it was ready: " + s.cmd.ProcessState.String()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		how = fmt.Sprintf("was not ready in %s", takeoverLimit)
	}
	return exit.Fail(exit.Start, fmt.Errorf("the new warden, %s, %s", s.cmd.Path, how),
		"the log of this one has what it said; `"+s.cmd.Path+" version` shows whether it is a warden")
}

// dismiss ends a successor that does not take over.
func (s *successor) dismiss() {
	s.link.Close() // it ends by itself; one that hangs does not
	select {
	case <-s.ended:
	case <-time.After(time.Second):
		_ = s.cmd.Process.Kill()
		<-s.ended
	}
	// What it has started would hold the control socket's lock that it inherited. It leads a session of its own.
	_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL)
}

// takeoverArgs is this command line with --takeover right behind the command.
func takeoverArgs(args []string) []string {
	args = slices.DeleteFunc(slices.Clone(args), func(arg string) bool { return arg == "--takeover" })
	return self.WithFlag(args, "--takeover")
}

// successorEnv is our environment but for the watchdog's pid, which is ours.
func successorEnv(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(kv string) bool { return strings.HasPrefix(kv, "WATCHDOG_PID=") })
}

// leave makes Run hand over to next; false when warden is stopping already.
func (d *Daemon) leave(next *successor) (leaving bool) {
	d.stopOnce.Do(func() {
		d.next = next
		close(d.leaving)
		leaving = true
	})
	return leaving
}

// closing tells clients, while warden leaves, to come back on a new connection:
// the successor accepts those. Idle connections stay open until their client
// uses or closes them, since a close may cross with a request.
func (d *Daemon) closing(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-d.leaving:
			w.Header().Set("Connection", "close")
		default:
		}
		h.ServeHTTP(w, r)
	})
}

// handOver lets the successor take over, finishes the answers that have begun,
// and stays as long as somebody waits for this process.
func (d *Daemon) handOver(ctx context.Context, server *http.Server, open *conns.Open, cancel context.CancelFunc) error {
	d.log.Info("handing over", "pid", d.next.cmd.Process.Pid)
	if err := d.control.CloseFor(d.next.cmd.Process.Pid); err != nil {
		d.log.Warn("commands will not wait for the new warden", "err", err)
	}
	_ = d.api.Close() // the successor has the socket too, so nobody is refused
	d.sup.Detach()
	<-d.reaped
	cancel()
	d.service.HandOver(d.next.cmd.Process.Pid)
	if err := d.saveSessions(); err != nil {
		d.log.Warn("sessions cannot be handed over: they begin anew", "err", err)
	}
	if err := d.next.link.Say(handover.Go); err != nil {
		d.log.Error("the new warden ended before it took over; `warden up` takes the engines over", "err", err)
	}
	hurry := make(chan struct{})
	go func() {
		defer close(hurry)
		for word := d.next.link.Hear(); word != "" && word != handover.Hurry; word = d.next.link.Hear() {
		}
	}()
	limit, done := context.WithTimeout(context.Background(), lastAnswers)
	defer done()
	left := make(chan struct{})
	var relaying sync.WaitGroup
	relaying.Go(func() { d.next.relay(ctx, d.killed, left, done) })
	defer relaying.Wait() // the caller ends ctx next, which is no order to stop
	defer close(left)
	var following sync.WaitGroup
	following.Go(func() { d.followReplicas(limit) })
	following.Go(func() { d.tellHeld(limit) })
	open.Wait(limit, hurry)
	d.before.await(limit, hurry) // what it still answers is held at the successor through us
	done()
	following.Wait()
	_ = server.Close() // what is still open was given its time
	d.router.Close()
	err := d.gpus.Close()
	_ = d.next.link.Say(handover.Drained) // it may have ended
	if d.service.Active() {
		return err // systemd knows who is the main process now
	}
	select {
	case <-d.unwaited:
		return err
	case <-d.next.ended:
	}
	if code := d.next.cmd.ProcessState.ExitCode(); code > exit.OK {
		return &exit.Silent{Code: code}
	} else if code < exit.OK {
		return fmt.Errorf("the warden that took over (pid %d) was ended by a signal: %s", d.next.cmd.Process.Pid, d.next.cmd.ProcessState)
	}
	return err
}

// relay passes stop signals on to the successor: whoever sends them to us means
// the whole warden. It gives up our own answers on the second one, and when the
// successor has stopped the engines. It returns when that has ended, or when we
// have left.
func (s *successor) relay(stop context.Context, killed, left <-chan struct{}, giveUp context.CancelFunc) {
	stopping := stop.Done()
	for {
		select {
		case <-left:
			return
		case <-s.ended:
			if s.cmd.ProcessState.Success() {
				giveUp() // after a crash the engines answer on
			}
			return
		case <-stopping:
			stopping = nil
			_ = s.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		case <-killed:
			killed = nil
			_ = s.cmd.Process.Signal(syscall.SIGTERM)
			giveUp()
		}
	}
}

// followReplicas keeps the router of a leaving warden informed until ctx ends:
// requests that still wait here need to hear that a replica became ready, and
// the successor is who knows.
func (d *Daemon) followReplicas(ctx context.Context) {
	known := d.sup.Snapshot()
	for ctx.Err() == nil {
		if client, err := control.Dial(ctx, paths.ControlSocket(d.cfg.Name)); err == nil {
			for msg, err := range client.Watch(ctx) {
				if err != nil {
					break
				}
				if msg.Status != nil {
					d.learn(known, *msg.Status)
				}
			}
			client.Close()
		}
		select { // it starts, or is being upgraded itself
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// learn takes over what another warden says about the replicas known here.
func (d *Daemon) learn(known []supervisor.Replica, status control.Status) {
	for _, r := range known {
		i := slices.IndexFunc(status.Replicas, func(s control.Replica) bool { return s.ID == string(r.ID) && s.Model == r.Model })
		if i < 0 {
			r.State = supervisor.Stopped // the configuration no longer has it
		} else {
			s := status.Replicas[i]
			r.State, r.Generation, r.ReadyAt = supervisor.State(s.State), s.Generation, s.ReadyAt
			r.Returns = r.State == supervisor.Stopping // not told; where it is not so, the next state says it
		}
		d.facts.note(r)
	}
}
