package process

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lm-warden/warden/supervisor/shim/proc"
)

// Usage is what processes have used of the machine.
type Usage struct {
	CPU time.Duration // user and system, since they started
	RSS int64         // bytes resident now
}

// PID is that of the program itself.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Tree returns pid and its living descendants, in order.
func Tree(pid int) ([]int, error) {
	all, err := proc.All()
	if err != nil {
		return nil, err
	}
	return tree(all, pid), nil
}

func tree(all []proc.Process, pid int) []int {
	var out []int
	for _, p := range proc.Members(all, proc.Tree{Ancestor: pid}, nil) {
		out = append(out, p.PID)
	}
	if slices.ContainsFunc(all, func(p proc.Process) bool { return p.PID == pid && p.Alive() }) {
		out = append(out, pid)
	}
	slices.Sort(out)
	return out
}

// UsageOf adds up what the processes have used. One that is gone is an error:
// its time would be missing from a later sum.
func UsageOf(pids ...int) (Usage, error) {
	var sum Usage
	for _, pid := range pids {
		cpu, err := cpuTime(pid)
		if err != nil {
			return Usage{}, fmt.Errorf("CPU time of process %d: %w", pid, err)
		}
		rss, err := resident(pid)
		if err != nil {
			return Usage{}, fmt.Errorf("memory of process %d: %w", pid, err)
		}
		sum.CPU += cpu
		sum.RSS += rss
	}
	return sum, nil
}

// cpuTime reads the CPU clock of a whole process, ended threads included. It is
// the sum that /proc/PID/stat shows as utime and stime, to the nanosecond
// instead of to the tick of 10 ms.
func cpuTime(pid int) (time.Duration, error) {
	// CPUCLOCK_SCHED = 2 on the inverted PID: clock_getcpuclockid(3).
	const schedClock = 2
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid)<<3|schedClock, &t); err != nil {
		return 0, err
	}
	return time.Duration(t.Nano()), nil
}

func resident(pid int) (int64, error) {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	if err != nil {
		return 0, err
	}
	pages, err := residentPages(raw)
	return pages * int64(os.Getpagesize()), err
}

// residentPages is the second field of /proc/PID/statm.
func residentPages(raw []byte) (int64, error) {
	fields := strings.Fields(string(bytes.TrimSpace(raw)))
	if len(fields) < 2 {
		return 0, fmt.Errorf("unreadable memory status %q", raw)
	}
	return strconv.ParseInt(fields[1], 10, 64)
}
