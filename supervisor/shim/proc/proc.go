// Package proc answers one question about a process tree truthfully: who is still alive in it?
//
// Read in this order: Process (facts from /proc/PID/stat), Mark (how our processes are recognised), Members (which
// processes belong to a tree), Signal (how they are hit without hitting a stranger).
//
// Three things make this harder than kill(-pgid): a helper may leave its parent's group or session; a PID may be
// reused between looking and killing, so a process is identified by PID and start time and hit through a pidfd; and
// a zombie still "exists" for kill(pid, 0), for ever in a container whose PID 1 does not reap, so a zombie is dead.
package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Process is one process at the moment it was looked at.
type Process struct {
	PID     int
	Parent  int
	Group   int
	Session int
	State   byte   // as in ps: R S D T Z X ...
	Start   uint64 // clock ticks after boot; with PID it names a process uniquely until the next boot
}

// Alive reports whether the process still runs code or holds memory.
func (p Process) Alive() bool { return p.PID != 0 && p.State != 'Z' && p.State != 'X' }

// Read looks at one process. The error wraps os.ErrNotExist when there is none with that PID.
func Read(pid int) (Process, error) {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		if errors.Is(err, unix.ESRCH) { // it ended between open and read
			err = os.ErrNotExist
		}
		return Process{}, fmt.Errorf("process %d: %w", pid, err)
	}
	return parseStat(raw)
}

// parseStat reads /proc/PID/stat. The second field is the program's name in brackets and may itself hold brackets
// and spaces, so the fields are counted from the last closing one.
func parseStat(raw []byte) (Process, error) {
	open, end := bytes.IndexByte(raw, '('), bytes.LastIndexByte(raw, ')')
	if open < 0 || end < open {
		return Process{}, fmt.Errorf("unreadable process status %q", raw)
	}
	rest := strings.Fields(string(raw[end+1:]))
	const startField = 19 // field 22 of proc(5), counted from field 3
	if len(rest) <= startField || len(rest[0]) != 1 {
		return Process{}, fmt.Errorf("unreadable process status %q", raw)
	}
	p := Process{State: rest[0][0]}
	var errs [5]error
	p.PID, errs[0] = strconv.Atoi(strings.TrimSpace(string(raw[:open])))
	p.Parent, errs[1] = strconv.Atoi(rest[1])
	p.Group, errs[2] = strconv.Atoi(rest[2])
	p.Session, errs[3] = strconv.Atoi(rest[3])
	p.Start, errs[4] = strconv.ParseUint(rest[startField], 10, 64)
	if err := errors.Join(errs[:]...); err != nil {
		return Process{}, fmt.Errorf("unreadable process status: %w", err)
	}
	return p, nil
}

// All looks at every process of the machine that /proc shows.
func All() ([]Process, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var all []Process
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue // not a process
		}
		if p, err := Read(pid); err == nil {
			all = append(all, p)
		}
	}
	return all, nil
}

// IsTracker reports whether a process is Python's resource tracker: it removes the shared memory (/dev/shm) of the
// processes that used it, once they have ended. It then ends by itself.
func IsTracker(pid int) bool {
	line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	return err == nil && bytes.Contains(line, []byte("multiprocessing.resource_tracker"))
}

// Is reports whether pid is still the process that was started at start, and alive.
func Is(pid int, start uint64) bool {
	p, err := Read(pid)
	return err == nil && p.Start == start && p.Alive()
}

// BootID names the present boot of the machine: process start times of another boot mean nothing.
func BootID() (string, error) {
	raw, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(raw)), err
}

// Signal sends sig to p, unless another process has taken its PID meanwhile. A process that is gone is no error.
func Signal(p Process, sig unix.Signal) error {
	fd, err := unix.PidfdOpen(p.PID, 0)
	switch {
	case errors.Is(err, unix.ESRCH):
		return nil
	case err != nil: // no pidfd before Linux 5.3: the check and the signal are then two steps
		if !Is(p.PID, p.Start) {
			return nil
		}
		return ignoreGone(unix.Kill(p.PID, sig))
	}
	defer unix.Close(fd)
	if now, err := Read(p.PID); err != nil || now.Start != p.Start {
		return nil
	}
	return ignoreGone(unix.PidfdSendSignal(fd, sig, nil, 0))
}

func ignoreGone(err error) error {
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}
