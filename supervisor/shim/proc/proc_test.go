package proc

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestParseStat(t *testing.T) {
	const tail = " 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 5566 1000 0 0"
	tests := []struct {
		in   string
		want Process
		bad  bool
	}{
		{in: "42 (python3) S 7 42 41" + tail, want: Process{PID: 42, Parent: 7, Group: 42, Session: 41, State: 'S', Start: 5566}},
		{in: "42 (a) b (c) Z 7 42 41" + tail, want: Process{PID: 42, Parent: 7, Group: 42, Session: 41, State: 'Z', Start: 5566}},
		{in: "42 (VLLM::Engine Core) R 1 40 40" + tail, want: Process{PID: 42, Parent: 1, Group: 40, Session: 40, State: 'R', Start: 5566}},
		{in: "42 (x) S 7 42", bad: true},
		{in: "", bad: true},
		{in: ")(", bad: true},
		{in: "x (x) S 7 42 41" + tail, bad: true},
	}
	for _, tt := range tests {
		got, err := parseStat([]byte(tt.in))
		if (err != nil) != tt.bad || got != tt.want {
			if !tt.bad || err == nil {
				t.Errorf("%q: %+v, %v", tt.in, got, err)
			}
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("42 (python3) S 7 42 41 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 5566 1000 0 0"))
	f.Add([]byte("1 (a)) ) S"))
	f.Fuzz(func(_ *testing.T, raw []byte) { _, _ = parseStat(raw) })
}

func TestMembers(t *testing.T) {
	const mark = "WARDEN_REPLICA=x"
	marks := map[int]Marking{11: Marked, 20: Marked, 30: Overwritten, 31: Overwritten, 32: Unmarked, 41: Marked, 60: Overwritten}
	all := []Process{
		{PID: 1, State: 'S', Start: 1},
		{PID: 5, Parent: 1, State: 'S', Start: 90, Session: 5},                // the shim
		{PID: 10, Parent: 5, State: 'S', Start: 100, Session: 10},             // main
		{PID: 11, Parent: 10, State: 'S', Start: 101, Session: 10},            // its child
		{PID: 20, Parent: 1, State: 'R', Start: 102, Session: 20},             // left session and parent
		{PID: 21, Parent: 20, State: 'S', Start: 103, Session: 20},            // child of that one, without the mark
		{PID: 30, Parent: 1, State: 'S', Start: 104, Session: 10},             // in the session, environment overwritten
		{PID: 31, Parent: 1, State: 'S', Start: 99, Session: 10},              // the same but older than the engine
		{PID: 32, Parent: 1, State: 'S', Start: 105, Session: 10},             // a stranger in a reused session number
		{PID: 41, Parent: 1, State: 'Z', Start: 106, Session: 10},             // a zombie
		{PID: 50, Parent: 5, State: 'S', Start: 107, Session: 50},             // adopted by the shim
		{PID: 60, Parent: 1, State: 'S', Start: 108, Session: 61},             // overwritten, elsewhere
		{PID: 70, Parent: 32, State: 'S', Start: 109, Session: 10, Group: 10}, // the stranger's child
	}
	tests := []struct {
		name string
		tree Tree
		want []int
	}{
		{"from outside", Tree{Mark: mark, Main: 10, Start: 100}, []int{10, 11, 20, 21, 30}},
		{"from the shim", Tree{Mark: mark, Main: 10, Start: 100, Ancestor: 5}, []int{10, 11, 20, 21, 30, 50}},
		{"main unknown", Tree{Mark: mark}, []int{11, 20, 21}},
		{"main's number was reused", Tree{Mark: mark, Main: 10, Start: 55}, []int{11, 20, 21}},
		{"nothing known", Tree{}, nil},
	}
	for _, tt := range tests {
		asked := map[int]int{}
		got := Members(all, tt.tree, func(pid int, m string) Marking {
			if asked[pid]++; asked[pid] > 1 || m != mark {
				t.Errorf("%s: asked %d times for %q of %d", tt.name, asked[pid], m, pid)
			}
			return marks[pid]
		})
		var pids []int
		for _, p := range got {
			pids = append(pids, p.PID)
		}
		if diff := cmp.Diff(tt.want, pids); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
}

func TestMarking(t *testing.T) {
	tests := []struct {
		env  string
		want Marking
	}{
		{"A=1\x00M=x\x00B=2\x00", Marked},
		{"M=x", Marked},
		{"A=M=x\x00", Unmarked},
		{"M=xy\x00", Unmarked},
		{"", Unmarked},
		{"\x00\x00\x00", Overwritten},
		{"EngineCore\x00\x00", Overwritten},
	}
	for _, tt := range tests {
		if got := marking([]byte(tt.env), "M=x"); got != tt.want {
			t.Errorf("%q: %d, want %d", tt.env, got, tt.want)
		}
	}
	if got := ReadMarking(1<<30, "M=x"); got != Hidden {
		t.Errorf("no such process: %d", got)
	}
}

// sleeper starts a process that lives until it is killed.
func sleeper(t *testing.T) (*exec.Cmd, Process) {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p, err := Read(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	return cmd, p
}

func TestSignalHitsOnlyTheProcessItMeans(t *testing.T) {
	cmd, p := sleeper(t)
	other := p
	other.Start-- // as if the number had been given to another process
	if err := Signal(other, unix.SIGKILL); err != nil {
		t.Error(err)
	}
	if !Is(p.PID, p.Start) || Is(other.PID, other.Start) {
		t.Error("a process with a reused number was hit, or is taken for the other")
	}
	if err := Signal(p, unix.SIGKILL); err != nil {
		t.Error(err)
	}
	err := cmd.Wait()
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("ended with %v", err)
	}
	if err := Signal(p, unix.SIGKILL); err != nil {
		t.Errorf("a process that is gone: %v", err)
	}
	if _, err := Read(p.PID); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Read of a process that is gone: %v", err)
	}
}

func TestZombieIsNotAlive(t *testing.T) {
	cmd, p := sleeper(t)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	// A zombie's pidfd is readable; nobody has waited for it yet.
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int((20 * time.Second).Milliseconds())); n != 1 || err != nil {
		t.Fatalf("poll: %d, %v", n, err)
	}
	if err := unix.Kill(p.PID, 0); err != nil {
		t.Fatalf("kill(pid, 0) says %v: the test does not see a zombie", err)
	}
	if Is(p.PID, p.Start) {
		t.Error("a zombie counts as alive")
	}
	_ = cmd.Wait()
}

func TestBootID(t *testing.T) {
	if id, err := BootID(); err != nil || len(id) != 36 {
		t.Errorf("%q, %v", id, err)
	}
}
