package vllm

import (
	"fmt"
	"regexp"
	"strings"
	"syscall"

	"github.com/lm-warden/warden/supervisor"
)

// argparseExit is the status of a program that refused its command line.
const argparseExit = 2

// Diagnose explains an ended engine from its last log lines. The table in
// causes.go decides; what it does not know is answered by the last error line.
func (e *Engine) Diagnose(lines []string, exit supervisor.Exit) supervisor.Diagnosis {
	if d, ok := e.refusedFlag(lines, exit); ok {
		return d
	}
	for _, c := range causes {
		if d, ok := c.find(lines); ok {
			if c.outOfMemory {
				e.placeOutOfMemory(&d, lines)
			}
			return d
		}
	}
	if d, ok := byExit(lines, exit); ok {
		return d
	}
	if line := lastError(lines); line != "" {
		return supervisor.Diagnosis{Cause: message(line), Fix: "see the log of this replica", Line: line}
	}
	return supervisor.Diagnosis{Cause: "vLLM ended " + status(exit) + " and said nothing about it", Fix: "see the log of this replica"}
}

var unrecognized = regexp.MustCompile(`error: unrecognized arguments: (.*)`)

// refusedFlag handles flags that this vLLM does not know. Warden's own optional
// ones are remembered and left out of the next Command, so that a retry helps;
// anybody else's is for the user to remove.
func (e *Engine) refusedFlag(lines []string, exit supervisor.Exit) (supervisor.Diagnosis, bool) {
	if exit.Code != argparseExit {
		return supervisor.Diagnosis{}, false
	}
	line, m := lastMatch(lines, unrecognized)
	if m == nil {
		return supervisor.Diagnosis{}, false
	}
	var ours, theirs []string
	for _, word := range strings.Fields(m[1]) {
		name, isFlag := flagName(word)
		switch {
		case isFlag && e.optional(name):
			ours = append(ours, name)
		case isFlag:
			theirs = append(theirs, word)
		}
	}
	e.refuse(ours)
	if len(theirs) == 0 && len(ours) > 0 {
		return supervisor.Diagnosis{
			Cause: fmt.Sprintf("vLLM %s does not know %s", e.install.Version, strings.Join(ours, " and ")),
			Fix:   "none needed: warden starts it again without",
			Line:  line,
		}, true
	}
	if len(theirs) == 0 {
		theirs = []string{m[1]}
	}
	return supervisor.Diagnosis{
		Cause:     fmt.Sprintf("vLLM %s does not know the argument %s", e.install.Version, strings.Join(theirs, " ")),
		Fix:       "remove it from the engine arguments (after -- or in the configuration)",
		Permanent: true,
		Line:      line,
	}, true
}

// placeOutOfMemory says when memory ran out. At start the same will happen
// again; while serving it depends on what was being served.
func (e *Engine) placeOutOfMemory(d *supervisor.Diagnosis, lines []string) {
	when := map[string]string{
		supervisor.PhaseWeights: "while loading the weights",
		supervisor.PhaseCompile: "while compiling",
		supervisor.PhaseProfile: "while measuring memory",
		supervisor.PhaseGraphs:  "while capturing graphs",
		supervisor.PhaseServe:   "while serving",
	}
	last := ""
	for _, l := range lines {
		if p, ok := e.Phase(l); ok {
			last = p.Name
		}
	}
	d.Permanent = last != supervisor.PhaseServe
	if w := when[last]; w != "" {
		d.Cause += " " + w
	}
}

// byExit explains what only the exit status tells.
func byExit(lines []string, exit supervisor.Exit) (supervisor.Diagnosis, bool) {
	d := supervisor.Diagnosis{Line: lastError(lines)}
	switch {
	case exit.Signal == syscall.SIGKILL:
		d.Cause = "vLLM was killed (SIGKILL), most often because the machine ran out of memory"
		d.Fix = "look for \"Out of memory\" in `dmesg`; fewer replicas or a smaller model need less"
	case exit.Signal == syscall.SIGSEGV, exit.Signal == syscall.SIGBUS, exit.Signal == syscall.SIGABRT, exit.Signal == syscall.SIGILL:
		d.Cause = fmt.Sprintf("vLLM crashed (%s)", signalName(exit.Signal))
		d.Fix = "see the log of this replica; if it repeats, try another vLLM version"
	case exit.Signal == syscall.SIGTERM, exit.Signal == syscall.SIGINT, exit.Signal == syscall.SIGHUP:
		d.Cause = fmt.Sprintf("somebody else than warden ended vLLM (%s)", signalName(exit.Signal))
	case exit.Code == 0 && exit.Signal == 0:
		d.Cause = "vLLM ended by itself with status 0, which it does some seconds after its engine process died"
		d.Fix = "see the log of this replica for what ended the engine process"
	default:
		return supervisor.Diagnosis{}, false
	}
	return d, true
}

func signalName(s syscall.Signal) string {
	names := map[syscall.Signal]string{
		syscall.SIGKILL: "SIGKILL", syscall.SIGSEGV: "SIGSEGV", syscall.SIGBUS: "SIGBUS", syscall.SIGABRT: "SIGABRT",
		syscall.SIGILL: "SIGILL", syscall.SIGTERM: "SIGTERM", syscall.SIGINT: "SIGINT", syscall.SIGHUP: "SIGHUP",
	}
	if n, ok := names[s]; ok {
		return n
	}
	return fmt.Sprintf("signal %d", int(s))
}

func status(exit supervisor.Exit) string {
	if exit.Signal != 0 {
		return "by " + signalName(exit.Signal)
	}
	return fmt.Sprintf("with status %d", exit.Code)
}

var (
	// "(EngineCore pid=7) ERROR 11-30 14:20:11 [core.py:1143] " in front of a message.
	prefix = regexp.MustCompile(`^(?:\([^)]*pid=\d+\) )?(?:(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d (?:\[[^\]]*\] ?)?)?`)
	// The last line of a traceback: "ValueError: …", "torch.OutOfMemoryError: …".
	exception = regexp.MustCompile(`^[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit)(?::|$)`)
)

// message is a log line without the logger's prefix.
func message(line string) string {
	const longest = 300
	m := strings.TrimSpace(strings.TrimPrefix(line, prefix.FindString(line)))
	if len(m) > longest {
		m = strings.ToValidUTF8(m[:longest], "") + "…"
	}
	return m
}

// generic says only that something else went wrong before.
const generic = "Engine core initialization failed"

// lastError is the last line that names an exception; failing that, the last
// one that was logged as an error.
func lastError(lines []string) string {
	logged := ""
	for i := len(lines) - 1; i >= 0; i-- {
		m := message(lines[i])
		if m == "" || strings.Contains(m, generic) {
			continue
		}
		if exception.MatchString(m) {
			return lines[i]
		}
		if logged == "" && strings.Contains(lines[i], "ERROR ") {
			logged = lines[i]
		}
	}
	return logged
}

// lastMatch is the last line that matches, with its submatches.
func lastMatch(lines []string, re *regexp.Regexp) (string, []string) {
	for i := len(lines) - 1; i >= 0; i-- {
		if m := re.FindStringSubmatch(lines[i]); m != nil {
			return lines[i], m
		}
	}
	return "", nil
}
