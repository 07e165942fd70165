package control

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// SilentError is a daemon that lives and cannot be talked to: it does not answer, or its socket was removed. It is
// no NoDaemonError, because its engines have an owner.
type SilentError struct {
	Socket  string
	PID     int           // 0 unknown
	Lost    bool          // nobody listens on Socket
	Stopped bool          // by SIGSTOP or a debugger
	Waited  time.Duration // for an answer
}

func (e *SilentError) Error() string {
	who := "the warden"
	if e.PID != 0 {
		who = fmt.Sprintf("the warden with pid %d", e.PID)
	}
	switch {
	case e.Stopped:
		return fmt.Sprintf("%s is stopped by a signal and does not answer on %s", who, e.Socket)
	case e.Lost:
		return fmt.Sprintf("%s lives, but nobody listens on %s", who, e.Socket)
	default:
		return fmt.Sprintf("%s has not answered on %s for %s", who, e.Socket, e.Waited)
	}
}

// Hint is the way out.
func (e *SilentError) Hint() string {
	switch {
	case e.PID == 0:
		return "try again; `warden doctor` looks at the machine meanwhile"
	case e.Stopped:
		return fmt.Sprintf("let it go on with `kill -CONT %d`", e.PID)
	case e.Lost:
		return fmt.Sprintf("try again; `kill %d` stops it and its engines", e.PID)
	default:
		return fmt.Sprintf("try again; `kill -9 %d` ends it alone, then `warden up` takes its engines over and `warden down` ends them", e.PID)
	}
}

// silent describes the daemon that did not answer on a socket.
func silent(path string, lost bool, waited time.Duration) *SilentError {
	e := &SilentError{Socket: path, PID: holder(path), Lost: lost, Waited: waited}
	e.Stopped = e.PID != 0 && stopped(e.PID)
	return e
}

// holder is the process that holds the lock beside the socket, or 0. It looks instead of trying the lock, which
// would turn a daemon away that starts at that moment.
func holder(path string) int {
	lock, err := os.Open(path + ".lock")
	if err != nil {
		return 0
	}
	info, err := lock.Stat()
	pid := readPID(lock)
	lock.Close() // it would be found below, were the daemon this process
	if err != nil {
		return 0
	}
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil || pid == 0 {
		return 0
	}
	for _, file := range files {
		if open, err := os.Stat(file); err == nil && os.SameFile(open, info) {
			return pid
		}
	}
	return 0
}

// stopped says whether a process was stopped by a signal.
func stopped(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	_, after, _ := strings.Cut(string(stat), ") ") // a program's name may hold what it likes, but no daemon of ours does
	return strings.HasPrefix(after, "T") || strings.HasPrefix(after, "t")
}
