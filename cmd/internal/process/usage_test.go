package process

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lm-warden/warden/supervisor/shim/proc"
)

func TestTree(t *testing.T) {
	all := []proc.Process{
		{PID: 1, State: 'S'}, {PID: 10, Parent: 1, State: 'S'}, {PID: 12, Parent: 10, State: 'R'}, {PID: 11, Parent: 12, State: 'S'},
		{PID: 13, Parent: 10, State: 'Z'}, {PID: 20, Parent: 1, State: 'S'},
	}
	for pid, want := range map[int][]int{10: {10, 11, 12}, 11: {11}, 20: {20}, 99: nil} {
		if got := tree(all, pid); !slices.Equal(got, want) {
			t.Errorf("tree of %d: %v, want %v", pid, got, want)
		}
	}
}

// What a program burns must be seen: in a child of it, and of the size that the
// kernel itself gave it at its end.
func TestUsageOfATree(t *testing.T) {
	dir := t.TempDir()
	p := shell(t, dir, `sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; times > child; sleep 300' & wait`)
	times := written(t, p, filepath.Join(dir, "child"))
	pids, err := Tree(p.PID())
	if err != nil {
		t.Fatal(err)
	}
	if len(pids) < 2 || !slices.Contains(pids, p.PID()) {
		t.Fatalf("tree %v of %d, want a child too", pids, p.PID())
	}
	got, err := UsageOf(pids...)
	if err != nil {
		t.Fatal(err)
	}
	var user, system time.Duration // "0m0.12s 0m0.00s" of the shell, then of its children
	var fields [2]string
	copy(fields[:], strings.Fields(times))
	if user, err = time.ParseDuration(fields[0]); err != nil {
		t.Fatal(err)
	}
	if system, err = time.ParseDuration(fields[1]); err != nil {
		t.Fatal(err)
	}
	// `times` counts in ticks of 10 ms; the rest is the start of the processes.
	if said := user + system; said == 0 || got.CPU < said-20*time.Millisecond || got.CPU > said+time.Second {
		t.Errorf("CPU %v, the child itself says %v", got.CPU, said)
	}
	if got.RSS < 100<<10 || got.RSS > 1<<30 {
		t.Errorf("RSS %d bytes of two shells", got.RSS)
	}
}

func TestUsageOfWhatIsGone(t *testing.T) {
	p := shell(t, t.TempDir(), "exit 0")
	<-p.Ended()
	if _, err := UsageOf(os.Getpid(), p.PID()); err == nil {
		t.Error("no error for a process that has ended")
	}
}

func TestResidentPages(t *testing.T) {
	if n, err := residentPages([]byte("100 25 3 1 0 40 0\n")); err != nil || n != 25 {
		t.Errorf("%d, %v", n, err)
	}
	for _, bad := range []string{"", "5", "1 x 2"} {
		if _, err := residentPages([]byte(bad)); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}
