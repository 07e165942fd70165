// Package process starts programs for measurements and ends them for certain:
// each has a process group of its own, a log, and dies with whoever started it.
package process

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Command is what to start.
type Command struct {
	Name string // in errors, and of the log file
	Argv []string
	Env  []string // all of it; nil = the caller's
	Dir  string   // where the log goes, and the working directory
	CPUs []int    // the cores it may use; nil = all
	// Stays: the program outlives this one, and ends by other means. Its
	// descendants may then leave its group.
	Stays bool
}

// Process is a program that was started.
type Process struct {
	name, log string
	cmd       *exec.Cmd
	ended     chan struct{}
}

// Start starts it. What it writes goes to Name.log, after what is there.
func Start(c Command) (*Process, error) {
	p := &Process{name: c.Name, log: filepath.Join(c.Dir, c.Name+".log"), ended: make(chan struct{})}
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("%s has no log: %w", c.Name, err)
	}
	defer out.Close()
	p.cmd = exec.Command(c.Argv[0], c.Argv[1:]...)
	p.cmd.Env, p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = c.Env, c.Dir, out, out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	started := make(chan error)
	go func() {
		// Both the cores and the parent whose death counts are those of a
		// thread, so this one stays until the program has ended.
		runtime.LockOSThread() // never unlocked: the thread is not one to reuse
		if !c.Stays {
			p.cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
		}
		err := pin(c.CPUs)
		if err == nil {
			err = p.cmd.Start()
		}
		started <- err
		if err == nil {
			_ = p.cmd.Wait()
			close(p.ended)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("%s cannot be started: %w", c.Name, err)
	}
	return p, nil
}

// pin limits this thread, and what it starts, to some cores.
func pin(cpus []int) error {
	if len(cpus) == 0 {
		return nil
	}
	var set unix.CPUSet
	for _, cpu := range cpus {
		set.Set(cpu)
	}
	return unix.SchedSetaffinity(0, &set)
}

// Ended is closed when the program has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Kill ends the program itself at once, and nothing that it started.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// Stop asks the group to end, and kills what is left of it after grace.
func (p *Process) Stop(grace time.Duration) {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(grace):
	}
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.ended
}

// Failure explains why the program is not as it should be, with the end of its
// log.
func (p *Process) Failure(what string) error {
	return fmt.Errorf("%s %s; the end of %s:\n%s", p.name, what, p.log, tail(p.log))
}

const tailBytes = 4 << 10

func tail(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(text[max(0, len(text)-tailBytes):]))
}

const (
	poll        = 100 * time.Millisecond
	pollTimeout = 5 * time.Second
)

// Await polls until ready is nil and returns, or until the program or ctx ends.
func (p *Process) Await(ctx context.Context, what string, ready func(context.Context) error) error {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		once, cancel := context.WithTimeout(ctx, pollTimeout)
		err := ready(once)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-p.ended:
			return p.Failure("ended before it " + what)
		case <-ctx.Done():
			return errors.Join(p.Failure("never "+what), err, ctx.Err())
		case <-tick.C:
		}
	}
}

// Answers returns a check for Await: GET url answers 200.
func Answers(client *http.Client, url string) func(context.Context) error {
	return func(ctx context.Context) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(r)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s answers %s", url, resp.Status)
		}
		return nil
	}
}

// FreeAddress is a loopback address that nobody listens on.
func FreeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
