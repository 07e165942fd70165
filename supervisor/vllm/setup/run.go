package setup

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// Command is one program to run to its end.
type Command struct {
	Argv []string
	Env  []string
	Dir  string
}

// Runner runs a command and passes on each line that it prints. When ctx ends
// it ends the command with everything below it, and waits for that.
type Runner func(ctx context.Context, c Command, line func(string)) error

const (
	// pip removes its temporary files on SIGTERM; this is how long it may take.
	stopGrace = 5 * time.Second
	// tailLines of output are enough to hold pip's explanation of a conflict.
	tailLines = 15
	// Longest line kept; resolver messages are long, wheels' build logs longer.
	maxLine = 8 << 10
)

// Exec is the Runner of the real world. The command gets a process group of
// its own, so that Ctrl-C reaches warden first and ends the whole group, and
// dies with warden.
func Exec(ctx context.Context, c Command, line func(string)) error {
	return execute(ctx, c, line, stopGrace)
}

func execute(ctx context.Context, c Command, line func(string), grace time.Duration) error {
	// Pdeathsig follows the thread that started the process.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	cmd := exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...)
	cmd.Env, cmd.Dir = c.Env, c.Dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = grace

	r, w := io.Pipe()
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("cannot start %s: %w", filepath.Base(c.Argv[0]), err)
	}
	waited := make(chan error, 1)
	go func() {
		err := cmd.Wait()
		w.Close()
		waited <- err
	}()
	tail := forward(r, line)
	err := <-waited
	// Whatever the leader left behind in its group; most often nobody.
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return &CommandError{Argv: c.Argv, Tail: tail, Err: err}
	}
	return nil
}

// forward passes lines on until r ends and returns the last ones.
func forward(r io.Reader, line func(string)) []string {
	var tail []string
	sc := bufio.NewScanner(r)
	sc.Buffer(make([]byte, 0, maxLine), 1<<20)
	sc.Split(splitLines)
	for sc.Scan() {
		s := strings.TrimSpace(sc.Text())
		if s == "" {
			continue
		}
		if len(s) > maxLine {
			s = s[:maxLine]
		}
		tail = append(tail, s)
		if len(tail) > tailLines {
			tail = tail[1:]
		}
		line(s)
	}
	// A line beyond the scanner's limit must not block the program.
	_, _ = io.Copy(io.Discard, r)
	return tail
}

// splitLines splits at \n and at \r, since progress bars rewrite their line.
func splitLines(data []byte, atEOF bool) (advance int, token []byte, err error) {
	if i := bytes.IndexAny(data, "\r\n"); i >= 0 {
		return i + 1, data[:i], nil
	}
	if atEOF && len(data) > 0 {
		return len(data), data, nil
	}
	return 0, nil, nil
}

// CommandError is a program that failed, with the end of what it said.
type CommandError struct {
	Argv []string
	Tail []string
	Err  error
}

func (e *CommandError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s failed (%v)", describe(e.Argv), e.Err)
	for _, l := range e.Tail {
		b.WriteString("\n  | ")
		b.WriteString(l)
	}
	if hint := explain(e.Tail); hint != "" {
		b.WriteString("\n  fix: ")
		b.WriteString(hint)
	}
	return b.String()
}

func (e *CommandError) Unwrap() error { return e.Err }

// describe is the command for people: the program's name and the arguments
// that say what it was for.
func describe(argv []string) string {
	shown := []string{filepath.Base(argv[0])}
	for _, a := range argv[1:] {
		if len(a) <= 60 {
			shown = append(shown, a)
		}
	}
	return strings.Join(shown, " ")
}

// explain turns the usual ends of pip and uv into the next thing to do.
func explain(tail []string) string {
	all := strings.Join(tail, "\n")
	switch {
	case strings.Contains(all, "No space left on device"):
		return "free some room on that disk, then run `warden setup` again"
	case strings.Contains(all, "No matching distribution found"), strings.Contains(all, "No solution found"):
		return "the package index has no such version for this Python and machine: check --version, or `pip config list`"
	case strings.Contains(all, "Failed to infer device type"):
		return "vLLM sees no GPU: check that `nvidia-smi` shows one, then run `warden setup` again; without a GPU use --device cpu"
	case strings.Contains(all, "Temporary failure in name resolution"), strings.Contains(all, "Network is unreachable"),
		strings.Contains(all, "Connection refused"), strings.Contains(all, "error sending request"):
		return "the package index cannot be reached: check the network or `pip config list`, then run `warden setup` again"
	}
	return ""
}
