package shim

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lm-warden/warden/supervisor/shim/proc"
)

// oomScore makes the kernel take an engine before warden or anything else of the user when memory runs out.
const oomScore = "300"

// started is an engine that was just started.
type started struct {
	proc proc.Process
	at   time.Time
	err  error
}

// ended is a child of the shim that was reaped: the engine's main process or an orphan of its tree.
type ended struct {
	pid    int
	status unix.WaitStatus
}

// startAndReap starts the engine, reports that on up, and then reaps every child until none is left, which it tells by
// closing reaped. It must be called on a goroutine of its own: the engine's parent-death signal is bound to the thread
// that started it, so that thread must live as long as the engine (golang/go#27505).
func startAndReap(spec Spec, dir string, output *os.File, up chan<- started, reaped chan<- ended) {
	runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
	defer close(reaped)
	pid, err := forkEngine(spec, dir, output)
	output.Close() // the engine has its own copies; while ours is open the pipe would never end
	if err != nil {
		up <- started{err: err}
		return
	}
	p, err := proc.Read(pid) // a child that is not reaped yet is always there, if only as a zombie
	up <- started{proc: p, at: time.Now(), err: err}
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil: // ECHILD: a subreaper without children has no descendants at all
			return
		default:
			reaped <- ended{pid: pid, status: status}
		}
	}
}

func forkEngine(spec Spec, dir string, output *os.File) (int, error) {
	env := engineEnv(spec, dir)
	path, err := lookPath(spec.Argv[0], env)
	if err != nil {
		return 0, err
	}
	if err := bindCPUs(spec.CPUs); err != nil {
		return 0, err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	work := spec.WorkDir
	if work == "" {
		work = dir
	}
	pid, err := syscall.ForkExec(path, spec.Argv, &syscall.ProcAttr{
		Dir:   work,
		Env:   env,
		Files: []uintptr{null.Fd(), output.Fd(), output.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		return 0, fmt.Errorf("cannot start %s: %w", path, err)
	}
	// Raising one's own score needs no privilege. Where /proc is read-only the engine simply keeps the default.
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid), []byte(oomScore), 0)
	return pid, nil
}

func engineEnv(spec Spec, dir string) []string {
	return append(slices.Clone(spec.Env),
		markKey+"="+spec.Mark, runtimeMark(dir), keepEnviron)
}

// lookPath finds a program by the PATH that the engine will have, not by the shim's.
func lookPath(name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	path := ""
	for _, entry := range env {
		if value, found := strings.CutPrefix(entry, "PATH="); found {
			path = value
		}
	}
	for _, dir := range filepath.SplitList(path) {
		candidate := filepath.Join(dir, name)
		if !filepath.IsAbs(candidate) {
			continue
		}
		if _, err := exec.LookPath(candidate); err == nil {
			return candidate, nil
		}
	}
	return "", fmt.Errorf("cannot find %s in the engine's PATH %q", name, path)
}

// bindCPUs binds the calling thread, and what it forks, to the given cores.
func bindCPUs(cpus []int) error {
	if len(cpus) == 0 {
		return nil
	}
	var set unix.CPUSet
	for _, cpu := range cpus {
		set.Set(cpu)
	}
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("cannot bind the engine to cores %v: %w", cpus, err)
	}
	return nil
}

// removeStaleSocket removes the unix socket that a former engine left: vLLM would fail on it, minutes after its start.
func removeStaleSocket(address string) error {
	path, found := strings.CutPrefix(address, "unix:")
	if !found {
		return nil
	}
	info, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != os.ModeSocket {
		return fmt.Errorf("%s is not a socket; remove it or choose another path", path)
	}
	return os.Remove(path)
}

func exitOf(status unix.WaitStatus, at time.Time) *Exit {
	e := &Exit{At: at}
	if status.Signaled() {
		e.Signal = status.Signal()
	} else {
		e.Code = status.ExitStatus()
	}
	return e
}
