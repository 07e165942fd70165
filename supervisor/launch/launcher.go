package launch

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/lm-warden/warden/supervisor"
	"github.com/lm-warden/warden/supervisor/shim"
)

// Options configure a Launcher. The directories may not exist yet; all are needed.
type Options struct {
	// Argv tells how to run shim.Main: this program and the name of its hidden sub-command. It is asked at each start,
	// because an update removes and replaces the program's file while it runs.
	Argv       func() []string
	RuntimeDir string // sockets and state files, one directory a replica; short, because of unix socket paths
	LogDir     string // engine logs, one directory a replica
	LockDir    string // GPU locks; the same for all wardens of a user, so that no two of them use one GPU

	// OrphanStop ends engines that no warden was connected to for this long. 0 = they run on until a new warden
	// adopts or Sweep ends them.
	OrphanStop time.Duration
	// KillPatience is how long a shim gets to carry out a kill before its tree is ended without it. 0 = 8 s: a shim gives
	// up on processes itself after 5 s.
	KillPatience time.Duration
}

// Launcher runs each engine under a shim of its own, so that engines outlive warden.
type Launcher struct{ opts Options }

var _ supervisor.Launcher = (*Launcher)(nil)

// New returns a launcher; it touches nothing yet.
func New(o Options) *Launcher {
	if o.KillPatience <= 0 {
		o.KillPatience = killPatience
	}
	return &Launcher{opts: o}
}

const (
	shimStartLimit = 10 * time.Second // a shim reads a file and forks; more means a sick machine
	shimAnswer     = 5 * time.Second  // one hung shim must not stall a start of warden
	endGrace       = 5 * time.Second  // for an engine that does not match any more
	endLimit       = 30 * time.Second // for ending leftovers altogether
	tailForAdopted = 500              // lines of an adopted engine for the diagnosis and the screen
)

// Sweep ends the engines left in a runtime directory and says in words what it ended. No warden may be using them.
// A warden that is about to start keeps its own replicas, to adopt them: what is swept then are those of replicas that
// its configuration no longer has.
func Sweep(ctx context.Context, runtimeDir string, keep ...supervisor.ReplicaID) ([]string, error) {
	return sweep(ctx, runtimeDir, endGrace, keep)
}

// SweepNow is Sweep of everything without any patience: SIGKILL to every process.
func SweepNow(ctx context.Context, runtimeDir string) ([]string, error) {
	return sweep(ctx, runtimeDir, 0, nil)
}

func sweep(ctx context.Context, runtimeDir string, grace time.Duration, keep []supervisor.ReplicaID) ([]string, error) {
	dir, err := filepath.Abs(runtimeDir)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, endLimit)
	defer cancel()
	names := make([]string, len(keep))
	for i, id := range keep {
		names[i] = string(id)
	}
	return shim.Sweep(ctx, dir, grace, names...)
}

// Launch implements supervisor.Launcher.
func (s *Launcher) Launch(ctx context.Context, l supervisor.Launch) (supervisor.Process, error) {
	dir, err := s.prepare(ctx, l)
	if err != nil {
		return nil, err
	}
	cmd, err := s.startShim(dir)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, shimAnswer)
	defer cancel()
	client, err := connectFollowing(ctx, dir)
	if err != nil {
		// The engine was started: nothing of it may live on unseen.
		endCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endLimit)
		defer cancel()
		_, reapErr := shim.Reap(endCtx, dir)
		_ = cmd.Wait() // reaps the shim; how it ended does not matter any more
		return nil, errors.Join(err, reapErr)
	}
	return newProcess(dir, client, cmd, s.opts.KillPatience), nil
}

// prepare makes the replica's directory free for a new shim and writes its spec.
func (s *Launcher) prepare(ctx context.Context, l supervisor.Launch) (string, error) {
	dir, err := s.dir(l.ID)
	if err != nil {
		return "", err
	}
	logDir, err := filepath.Abs(filepath.Join(s.opts.LogDir, string(l.ID)))
	if err != nil {
		return "", err
	}
	lockDir, err := filepath.Abs(s.opts.LockDir)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	if err := s.end(ctx, dir); err != nil {
		return "", err
	}
	return dir, shim.WriteSpec(dir, shim.Spec{
		Replica: string(l.ID), Model: l.Model, Generation: l.Generation, Mark: rand.Text(),
		Argv: l.Command.Argv, Env: l.Command.Env, WorkDir: l.Command.Dir, CPUs: l.CPUs,
		Address: l.Address, GPUUUIDs: l.GPUUUIDs, LogDir: logDir, LockDir: lockDir,
		OrphanStop: s.opts.OrphanStop,
	})
}

func (s *Launcher) dir(id supervisor.ReplicaID) (string, error) {
	return filepath.Abs(filepath.Join(s.opts.RuntimeDir, string(id)))
}

// end ends what an earlier warden, or an earlier start, left in dir.
func (s *Launcher) end(ctx context.Context, dir string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endLimit)
	defer cancel()
	_, err := shim.End(ctx, dir, endGrace)
	return err
}

// startShim runs the shim and waits until it has started its engine.
func (s *Launcher) startShim(dir string) (*exec.Cmd, error) {
	outcome, shimEnd, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer outcome.Close()
	defer shimEnd.Close()
	own, err := os.OpenFile(filepath.Join(dir, "shim.log"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	defer own.Close()
	argv := s.opts.Argv()
	cmd := exec.Command(argv[0], append(slices.Clone(argv[1:]), "--dir", dir)...)
	cmd.Dir = dir
	cmd.Env = []string{} // it needs nothing; the engine's environment is in its spec
	cmd.Stderr = own
	cmd.ExtraFiles = []*os.File{shimEnd}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // Ctrl-C in warden's terminal is warden's to handle
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("cannot start the engine's shim: %w", err)
	}
	shimEnd.Close()
	if err := awaitStart(outcome); err != nil {
		err = errors.Join(err, cmd.Process.Kill())
		_ = cmd.Wait() // its exit status says less than err
		return nil, err
	}
	return cmd, nil
}

// awaitStart reads the shim's one line: empty = the engine runs, else the reason why not.
func awaitStart(outcome *os.File) error {
	if err := outcome.SetReadDeadline(time.Now().Add(shimStartLimit)); err != nil {
		return err
	}
	text, err := bufio.NewReader(outcome).ReadString('\n')
	if err != nil {
		return fmt.Errorf("the engine's shim did not start; see shim.log in the runtime directory: %w", err)
	}
	if text = strings.TrimSpace(text); text != "" {
		return errors.New(text)
	}
	return nil
}

// Adopt implements supervisor.Launcher.
func (s *Launcher) Adopt(ctx context.Context, l supervisor.Launch) (supervisor.Process, error) {
	dir, err := s.dir(l.ID)
	if err != nil {
		return nil, err
	}
	state, err := shim.ReadState(dir)
	if err != nil || state.Gone {
		return nil, supervisor.ErrNothingToAdopt // a damaged state file: Launch finds by the mark what it meant
	}
	answer, cancel := context.WithTimeout(ctx, shimAnswer)
	defer cancel()
	client, err := connectFollowing(answer, dir)
	if err == nil && matches(client.State(), l) {
		return newProcess(dir, client, nil, s.opts.KillPatience), nil
	}
	if err == nil {
		err = client.Close()
	}
	if endErr := s.end(ctx, dir); endErr != nil {
		return nil, errors.Join(err, endErr)
	}
	return nil, supervisor.ErrNothingToAdopt
}

// matches reports whether a running engine is what a start would give now.
func matches(s shim.State, l supervisor.Launch) bool {
	return s.Exit == nil && s.PID != 0 && s.Model == l.Model && s.Address == l.Address &&
		s.ArgvHash == shim.ArgvHash(l.Command.Argv) && slices.Equal(s.GPUUUIDs, l.GPUUUIDs)
}

func connectFollowing(ctx context.Context, dir string) (*shim.Client, error) {
	client, err := shim.Connect(ctx, dir)
	if err != nil {
		return nil, err
	}
	if err := client.Follow(tailForAdopted); err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return client, nil
}

// Logs implements supervisor.Launcher.
func (s *Launcher) Logs(ctx context.Context, id supervisor.ReplicaID, q supervisor.LogQuery) iter.Seq2[supervisor.LogLine, error] {
	dir := filepath.Join(s.opts.LogDir, string(id))
	return func(yield func(supervisor.LogLine, error) bool) {
		for l, err := range shim.ReadLog(ctx, dir, shim.Query(q)) {
			if !yield(supervisor.LogLine(l), err) {
				return
			}
		}
	}
}
