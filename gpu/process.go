package gpu

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"syscall"
)

// process is one life of the NVML child. Its messages and its end arrive on
// channels; whoever owns it decides.
type process struct {
	pid      int
	requests io.Writer
	messages chan message  // until it ends or writes nonsense
	exited   chan struct{} // closed when reaped; ending is valid from then on
	ending   error         // how it ended
	kill     func()        // SIGKILL; safe at any time, also twice

	abandon   chan struct{} // closed by drop: nobody reads messages any more
	abandoned sync.Once
}

// drop ends the interest in a process: it is killed, and what it still says is
// discarded. It does not wait: a process inside a sick driver may never end.
func (p *process) drop() {
	p.abandoned.Do(func() { close(p.abandon) })
	p.kill()
}

// spawn starts the child in its own process group, so that a Ctrl-C in the
// terminal reaches warden only. When warden itself dies the child sees the end
// of its input and exits.
func spawn(argv, env []string) (*process, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	stderr := &tail{}
	cmd.Stderr = stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{
		pid:      cmd.Process.Pid,
		requests: stdin,
		messages: make(chan message),
		exited:   make(chan struct{}),
		abandon:  make(chan struct{}),
		kill:     func() { _ = cmd.Process.Kill() }, // fails only when it is already gone
	}
	go func() {
		defer close(p.exited)
		nonsense := p.read(stdout)
		err := cmd.Wait()
		p.ending = ending(err, nonsense, stderr.lastLine())
	}()
	return p, nil
}

// read hands on messages until the output ends. A line that is no message ends
// the process: something else writes on that pipe.
func (p *process) read(stdout io.Reader) error {
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		m, err := parseMessage(lines.Bytes())
		if err != nil {
			p.kill()
			return err
		}
		select {
		case p.messages <- m:
		case <-p.abandon:
			return nil
		}
	}
	if err := lines.Err(); err != nil {
		p.kill()
		return fmt.Errorf("cannot read the NVML child's output: %w", err)
	}
	return nil
}

// ending words how a child ended. Its last error line is worth most: the
// dynamic loader names a missing symbol there.
func ending(wait, nonsense error, lastLine string) error {
	why := "it exited with status 0"
	switch {
	case nonsense != nil:
		why = nonsense.Error()
	case wait != nil:
		why = wait.Error()
	}
	if lastLine != "" {
		why += ": " + lastLine
	}
	return nvmlError(CodeChildEnded, "", why)
}

// tail keeps the end of a stream, enough for its last line.
type tail struct {
	mu   sync.Mutex
	kept []byte
}

const tailSize = 2048 // bytes

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, b...)
	if over := len(t.kept) - tailSize; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	return len(b), nil
}

func (t *tail) lastLine() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := bytes.TrimSpace(t.kept)
	if i := bytes.LastIndexByte(text, '\n'); i >= 0 {
		text = text[i+1:]
	}
	return strings.TrimSpace(string(text))
}
