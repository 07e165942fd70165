package simengine

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// logger writes lines in vLLM's form:
//
//	(EngineCore pid=4188) INFO 11-30 10:00:28 [core.py:133] text
type logger struct {
	mu   sync.Mutex
	out  io.Writer // vLLM's own lines
	err  io.Writer // uvicorn's lines and progress bars
	core int       // pid of EngineCore
}

// source is the process that a line comes from.
type source string

const (
	apiServer  source = "APIServer"
	engineCore source = "EngineCore"
	uvicorn    source = "uvicorn" // no prefix, on stderr
)

func (l *logger) write(s source, level, file, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	pid := os.Getpid()
	switch s {
	case uvicorn:
		fmt.Fprintf(l.err, "%-9s %s\n", level+":", text)
		return
	case engineCore:
		if l.core != 0 {
			pid = l.core
		}
	}
	fmt.Fprintf(l.out, "(%s pid=%d) %s %s [%s] %s\n", s, pid, level, time.Now().Format("01-02 15:04:05"), file, text)
}

func (l *logger) api(file, format string, args ...any) {
	l.write(apiServer, "INFO", file, fmt.Sprintf(format, args...))
}

func (l *logger) server(format string, args ...any) {
	l.write(uvicorn, "INFO", "", fmt.Sprintf(format, args...))
}

// bar writes a progress bar's state; it ends with a carriage return until it
// is complete, as tqdm's do.
func (l *logger) bar(text string, done, total int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	end := "\r"
	if done == total {
		end = "\n"
	}
	fmt.Fprintf(l.err, "%s: %3d%% Completed | %d/%d%s", text, 100*done/total, done, total, end)
}

// raw writes a line without prefix: tracebacks and messages of argparse.
func (l *logger) raw(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintln(l.err, text)
}
