package daemon

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// programPatience is how long starts wait for vLLM to be there again: an upgrade of
// it takes it away for minutes. After that they fail, and the replica is parked.
const programPatience = 15 * time.Minute

// program is the engines' program on the disk. It was there when warden started, or
// that start had failed.
type program struct {
	path string

	mu    sync.Mutex
	since time.Time // when it was found missing; zero = it was there
}

// absence says why a start would fail for want of the program, "" when it is there,
// or has been missing for too long to wait for.
func (p *program) absence(now time.Time) (why string) {
	what := missingPart(p.path)
	p.mu.Lock()
	defer p.mu.Unlock()
	if what == "" {
		p.since = time.Time{}
		return ""
	}
	if p.since.IsZero() {
		p.since = now
	}
	if now.Sub(p.since) >= programPatience {
		return ""
	}
	return fmt.Sprintf("no engine can start: %s; engines start once it is (an upgrade of vLLM does this), else they fail from %s on. Install it again, or `warden up` with another --vllm",
		what, p.since.Add(programPatience).Format("15:04"))
}

// missingPart says that a program, or the interpreter that its first line names, is
// not there; "" when both are, and for any other fault, which is for the start to tell.
func missingPart(path string) string {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return path + " is not there"
	}
	if err != nil {
		return ""
	}
	defer file.Close()
	head, err := io.ReadAll(io.LimitReader(file, 256)) // as far as the kernel looks
	if err != nil {
		return ""
	}
	line, isScript := bytes.CutPrefix(head, []byte("#!"))
	line, _, _ = bytes.Cut(line, []byte("\n"))
	words := bytes.Fields(line)
	if !isScript || len(words) == 0 {
		return ""
	}
	if _, err := os.Stat(string(words[0])); errors.Is(err, os.ErrNotExist) {
		return fmt.Sprintf("%s, which runs %s, is not there", words[0], path)
	}
	return ""
}
