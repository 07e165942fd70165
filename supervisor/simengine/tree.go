package simengine

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// coreProcess is the simulated EngineCore: a process that holds and waits, for
// everything computes in the API server. It exists because supervisors have to
// do with process trees.
//
// Parent and child hold the two ends of a socket pair, so each learns of the
// other's death whoever has adopted the child meanwhile.
type coreProcess struct {
	pid  int
	gone chan struct{} // closed when it is dead
}

// coreCommand is the first argument of the child; EngineCore in `ps`.
const (
	hiddenCommand = "__simengine"
	coreCommand   = "core"
	coreName      = "SIMULATED::EngineCore"
	leashFD       = 3 // the first of ExtraFiles
)

// startCore starts EngineCore in the shape of cfg.tree. Its output goes to out
// where that is a file.
func startCore(c *config, hold time.Duration, out, errOut io.Writer) (*coreProcess, error) {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("socket pair for EngineCore: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "leash"), os.NewFile(uintptr(pair[1]), "leash")
	defer theirs.Close()
	cmd := coreExec(theirs, c.tree, c.orphan, hold)
	if f, ok := out.(*os.File); ok {
		cmd.Stdout = f
	}
	if f, ok := errOut.(*os.File); ok {
		cmd.Stderr = f
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: c.tree == treeSetsid}
	if err := cmd.Start(); err != nil {
		ours.Close()
		return nil, fmt.Errorf("start EngineCore: %w", err)
	}
	core := &coreProcess{gone: make(chan struct{})}
	lines := bufio.NewReader(ours)
	line, err := lines.ReadString('\n')
	if err == nil {
		core.pid, err = strconv.Atoi(strings.TrimSpace(line))
	}
	if err != nil {
		ours.Close()
		_ = cmd.Process.Kill()
		return nil, errors.Join(fmt.Errorf("EngineCore did not come up: %w", err), cmd.Wait())
	}
	go func() {
		_, _ = io.Copy(io.Discard, lines) // ends when the last process with the other end is gone
		ours.Close()
		_ = cmd.Wait() // its status says nothing that its death does not
		close(core.gone)
	}()
	return core, nil
}

func coreExec(leash *os.File, tree string, orphan, hold time.Duration) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", hiddenCommand, coreCommand, tree, orphan.String(), hold.String())
	cmd.Args[0] = coreName
	cmd.ExtraFiles = []*os.File{leash}
	return cmd
}

// signal sends a signal to EngineCore itself.
func (p *coreProcess) signal(s syscall.Signal) {
	if p == nil {
		return
	}
	select {
	case <-p.gone: // its pid may belong to another by now
	default:
		_ = syscall.Kill(p.pid, s)
	}
}

// runCore is EngineCore's main: args are the tree shape, the orphan limit and
// how long to hold on after the end.
func runCore(args []string, errOut io.Writer) int {
	const want = 3
	if len(args) != want {
		fmt.Fprintln(errOut, "the simulated EngineCore is started by the simulated engine only")
		return exitUsage
	}
	orphan, err1 := time.ParseDuration(args[1])
	hold, err2 := time.ParseDuration(args[2])
	if err1 != nil || err2 != nil {
		fmt.Fprintln(errOut, errors.Join(err1, err2))
		return exitUsage
	}
	leash := os.NewFile(leashFD, "leash") // not earlier: its finalizer closes what is not ours
	if args[0] == treeDoubleFork {
		// The child outlives this process and is adopted by init or a subreaper.
		cmd := coreExec(leash, treeGroup, orphan, hold)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := cmd.Start(); err != nil {
			fmt.Fprintln(errOut, "start EngineCore:", err)
			return exitFailed
		}
		return exitOK
	}
	terms := make(chan os.Signal, 1)
	signal.Notify(terms, syscall.SIGTERM)
	signal.Ignore(syscall.SIGINT) // the terminal's goes to the API server, which decides
	fmt.Fprintln(leash, os.Getpid())
	orphaned := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, leash)
		close(orphaned)
	}()
	select {
	case <-terms:
	case <-orphaned:
		// Like vLLM's, it lives on without its API server, but not for ever.
		limit := time.NewTimer(max(orphan, hold))
		defer limit.Stop()
		select {
		case <-terms:
		case <-limit.C:
			return exitOK
		}
	}
	time.Sleep(hold)
	return exitOK
}
