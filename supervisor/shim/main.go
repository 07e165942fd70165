package shim

import (
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lm-warden/warden/supervisor/shim/proc"
)

// readyFD is where the parent listens for the outcome of the start: one line, empty for success, else the reason.
const readyFD = 3

const (
	// farewell is how long the shim waits for slow clients, and for a slow disk, before it ends.
	farewell = time.Second
	// welcome is how long it waits for the first client when the engine ended at once: whoever started it wants to
	// hear why, and may be slower than a refused command line.
	welcome = 3 * time.Second
)

// Main is the body of the hidden sub-command `warden __shim --dir D`. It returns the exit status: 0 when the engine was
// started and its whole tree has ended, however that happened; the engine's own end is in the state file.
func Main(args []string) int {
	flags := flag.NewFlagSet("__shim", flag.ContinueOnError)
	dir := flags.String("dir", "", "the replica's directory")
	if flags.Parse(args) != nil || *dir == "" {
		return 2
	}
	ready := os.NewFile(readyFD, "ready")
	err := run(*dir, func() { report(ready, "") })
	if err != nil {
		report(ready, err.Error())
		return 1
	}
	return 0
}

// report writes the outcome of the start. The parent may be gone by then; the engine is not started for its sake alone.
func report(ready *os.File, text string) {
	_, _ = ready.WriteString(text + "\n")
	_ = ready.Close()
}

func run(dir string, up func()) error {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil)) // the parent points it at a file
	spec, err := takeSpec(dir)
	if err != nil {
		return err
	}
	locks, err := lockAll(dir, spec)
	if err != nil {
		return err
	}
	defer closeAll(locks)
	if err := becomeKeeper(); err != nil {
		return err
	}
	if err := removeStaleSocket(spec.Address); err != nil {
		return err
	}
	state, err := firstState(spec)
	if err != nil {
		return err
	}
	// Written before the engine exists: whatever happens from here on, the mark is on record.
	if err := writeState(dir, state); err != nil {
		return err
	}
	return supervise(dir, spec, state, log, up)
}

// becomeKeeper makes the orphans of the engine's tree ours to reap, and switches core dumps off: they would hold the
// prompts and be as large as the model.
func becomeKeeper() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("cannot become the reaper of the engine's processes: %w", err)
	}
	return unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
}

func firstState(spec Spec) (State, error) {
	boot, err := proc.BootID()
	if err != nil {
		return State{}, err
	}
	self, err := proc.Read(os.Getpid())
	if err != nil {
		return State{}, err
	}
	return State{
		Replica: spec.Replica, Model: spec.Model, Generation: spec.Generation, Mark: spec.Mark,
		BootID: boot, ShimPID: self.PID, ShimStart: self.Start, StartedAt: time.Now(),
		ArgvHash: ArgvHash(spec.Argv), Address: spec.Address, GPUUUIDs: spec.GPUUUIDs,
	}, nil
}

// supervise starts the engine and returns when its tree is gone.
func supervise(dir string, spec Spec, state State, log *slog.Logger, up func()) error {
	signals, release := takeSignals()
	defer release()
	listener, err := listen(filepath.Join(dir, socketFile))
	if err != nil {
		return err
	}
	defer listener.Close()
	logs, err := openLog(spec.LogDir, logFileSize)
	if err != nil { // a full or read-only disk must not keep the engine from serving
		log.Error("engine log not opened; lines are lost until it can be", "err", err)
	}
	output, begun, reaped, err := startEngine(spec, dir)
	if err != nil {
		return errors.Join(err, logs.close())
	}
	defer output.Close()
	state.PID, state.Start = begun.proc.PID, begun.proc.Start

	orders := make(chan request)
	clients := newHub(state, orders)
	disk := newDiskQueue()
	keep := &keeper{dir: dir, log: log, state: state, hub: clients, cgroup: ownCgroup(spec.Mark, state.PID), lost: disk.lostLines}
	keep.save()

	var serving, writing, draining sync.WaitGroup
	serving.Go(func() { clients.serve(listener) })
	writing.Go(func() { disk.run(logs, log) })
	draining.Go(func() {
		err := drain(output, spec.Generation, newRedactor(spec.Env, spec.Argv), func(l Line) {
			clients.line(l)
			if !l.Redraw {
				disk.put(l)
			}
		})
		if err != nil {
			log.Error("engine output lost", "err", err)
		}
	})
	up()
	keep.run(reaped, orders, signals, spec.OrphanStop)

	// No process is left, so the pipe has an end, unless one of them passed it on to a stranger.
	keep.complain(output.SetReadDeadline(time.Now().Add(farewell)))
	draining.Wait()
	disk.close()
	waitAtMost(&writing, farewell)
	keep.takeLeave(begun.at)
	listener.Close()
	clients.close(farewell)
	serving.Wait()
	return nil
}

// takeSignals returns where requests to end arrive. A closed terminal is no such request: SIGHUP is taken and dropped,
// not ignored, because the engine would inherit that.
func takeSignals() (ends <-chan os.Signal, release func()) {
	signals, hangups := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT)
	signal.Notify(hangups, unix.SIGHUP)
	return signals, func() {
		signal.Stop(signals)
		signal.Stop(hangups)
	}
}

// startEngine starts the engine with its output in a pipe.
func startEngine(spec Spec, dir string) (output *os.File, begun started, reaped <-chan ended, err error) {
	output, input, err := os.Pipe()
	if err != nil {
		return nil, started{}, nil, err
	}
	growPipe(output)
	outcome, children := make(chan started, 1), make(chan ended)
	go startAndReap(spec, dir, input, outcome, children)
	begun = <-outcome
	if begun.err == nil {
		return output, begun, children, nil
	}
	for range children { // closed at once unless the engine could be started but not be looked at
	}
	return nil, begun, nil, errors.Join(begun.err, output.Close())
}

// takeLeave tells that nothing is left, once there is somebody to tell.
func (k *keeper) takeLeave(begun time.Time) {
	select {
	case <-k.hub.followed:
	case <-time.After(welcome - min(welcome, time.Since(begun))):
	}
	k.state.Gone = true
	k.save()
	k.hub.setState(k.state)
	k.hub.notice(message{Kind: msgGone, Exit: k.state.Exit})
	if k.cgroup != nil {
		k.complain(k.cgroup.remove())
	}
}

// waitAtMost gives up on a disk that hangs: the GPU locks must not wait for it.
func waitAtMost(group *sync.WaitGroup, limit time.Duration) {
	done := make(chan struct{})
	go func() {
		group.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(limit):
	}
}

func listen(path string) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) { // we hold the lock: it is stale
		return nil, err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	// Go's listener removes the file on Close, which also ends the waiting of late clients.
	return l, os.Chmod(path, 0o600)
}

// growPipe asks for a large pipe; the kernel may refuse beyond the user's limit, and the default works too.
func growPipe(pipe *os.File) {
	raw, err := pipe.SyscallConn() // not pipe.Fd(), which would make reads deaf to deadlines
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, pipeSize) })
}

// ownCgroup moves the engine into a control group of its own, where the machine allows it.
func ownCgroup(mark string, pid int) *cgroup {
	c := newCgroup("warden-" + mark)
	if c == nil {
		return nil
	}
	if c.add(pid) != nil {
		_ = c.remove()
		return nil
	}
	return c
}
