package shim

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lm-warden/warden/supervisor/internal/testengine"
	"github.com/lm-warden/warden/supervisor/shim/proc"
)

// limit bounds every wait in these tests; nothing waits that long unless it fails.
const limit = 20 * time.Second

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

// live is a shim under test.
type live struct {
	t      *testing.T
	dir    string
	logs   string
	cmd    *exec.Cmd
	client *Client
}

// runtimeDir is short: socket paths are limited to 107 bytes.
func runtimeDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "shim")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func testSpec(t *testing.T, dir string, args ...string) Spec {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Spec{
		Replica: "r0", Model: "m", Generation: 3, Mark: "mark-" + filepath.Base(filepath.Dir(dir)),
		Argv:   append([]string{self, testengine.Command}, args...),
		Env:    []string{"PATH=/usr/bin:/bin"},
		LogDir: filepath.Join(filepath.Dir(dir), "log"), LockDir: filepath.Join(filepath.Dir(dir), "locks"),
	}
}

// launch runs a shim in dir and reports the reason when it does not start its engine.
func launch(t *testing.T, dir string, spec Spec) (*exec.Cmd, error) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := WriteSpec(dir, spec); err != nil {
		t.Fatal(err)
	}
	outcome, shimEnd, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer outcome.Close()
	cmd := exec.Command(self, testengine.ShimCommand, "--dir", dir)
	cmd.Env = []string{}
	cmd.Stderr = os.Stderr
	cmd.ExtraFiles = []*os.File{shimEnd}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	shimEnd.Close()
	text, err := bufio.NewReader(outcome).ReadString('\n')
	if err != nil {
		t.Fatalf("shim said nothing: %v", err)
	}
	if text = strings.TrimSpace(text); text != "" {
		_ = cmd.Wait()
		return nil, errors.New(text)
	}
	return cmd, nil
}

func startShim(t *testing.T, change func(*Spec), args ...string) *live {
	t.Helper()
	dir := filepath.Join(runtimeDir(t), "r0")
	spec := testSpec(t, dir, args...)
	if change != nil {
		change(&spec)
	}
	cmd, err := launch(t, dir, spec)
	if err != nil {
		t.Fatal(err)
	}
	r := &live{t: t, dir: dir, logs: spec.LogDir, cmd: cmd}
	t.Cleanup(func() {
		if _, err := End(context.Background(), dir, 0); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait()
	})
	r.client, err = Connect(within(t), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.client.Close() })
	if err := r.client.Follow(100); err != nil {
		t.Fatal(err)
	}
	return r
}

// until reads notices until one satisfies the condition.
func (r *live) until(what string, wanted func(Notice) bool) Notice {
	r.t.Helper()
	type result struct {
		n   Notice
		err error
	}
	for {
		got := make(chan result, 1)
		go func() {
			n, err := r.client.Next()
			got <- result{n, err}
		}()
		select {
		case res := <-got:
			if res.err != nil {
				r.t.Fatalf("waiting for %s: %v", what, res.err)
			}
			if wanted(res.n) {
				return res.n
			}
		case <-time.After(limit):
			r.client.Close()
			<-got
			r.t.Fatalf("no %s in %s", what, limit)
		}
	}
}

func (r *live) line(part string) {
	r.t.Helper()
	r.until("line "+part, func(n Notice) bool { return n.Line != nil && strings.Contains(n.Line.Text, part) })
}

func (r *live) exited() Exit {
	r.t.Helper()
	return *r.until("exit", func(n Notice) bool { return n.Exited != nil }).Exited
}

func (r *live) gone() {
	r.t.Helper()
	r.until("end", func(n Notice) bool { return n.Gone })
	if err := r.client.WaitEnd(within(r.t)); err != nil {
		r.t.Error(err)
	}
}

// marked are the living processes that were started in dir, in the shim's way of looking and in a plainer one.
func marked(t *testing.T, dir string) []proc.Process {
	t.Helper()
	all, err := proc.All()
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(p proc.Process) bool {
		return !p.Alive() || proc.ReadMarking(p.PID, runtimeMark(dir)) != proc.Marked
	})
}

func (r *live) nothingLeft() {
	r.t.Helper()
	if left := marked(r.t, r.dir); len(left) > 0 {
		r.t.Errorf("left alive: %+v", left)
	}
}

var allShapes = "group,setsid,double"

func TestWholeTreeEndsWhateverEndsFirst(t *testing.T) {
	const helpers = 3
	tests := []struct {
		name string
		end  func(t *testing.T, r *live)
	}{
		{"orderly stop", func(t *testing.T, r *live) {
			if err := r.client.Stop(limit); err != nil {
				t.Fatal(err)
			}
			if e := r.exited(); e.Code != 0 || e.Signal != 0 {
				t.Errorf("main process ended with %+v, want code 0", e)
			}
			r.gone()
		}},
		{"kill order", func(t *testing.T, r *live) {
			if err := r.client.Kill(); err != nil {
				t.Fatal(err)
			}
			if e := r.exited(); e.Signal != syscall.SIGKILL {
				t.Errorf("main process ended with %+v, want SIGKILL", e)
			}
			r.gone()
		}},
		{"main process killed", func(t *testing.T, r *live) {
			if err := unix.Kill(r.client.State().PID, unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
			if e := r.exited(); e.Signal != syscall.SIGKILL {
				t.Errorf("main process ended with %+v, want SIGKILL", e)
			}
			r.gone()
		}},
		{"shim terminated", func(t *testing.T, r *live) {
			if err := r.cmd.Process.Signal(unix.SIGTERM); err != nil {
				t.Fatal(err)
			}
			r.gone()
		}},
		{"shim killed, then swept", func(t *testing.T, r *live) {
			if err := r.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = r.cmd.Wait()
			words, err := Sweep(within(t), filepath.Dir(r.dir), 0)
			if err != nil || len(words) != 1 || !strings.Contains(words[0], "left by a dead or hung shim") {
				t.Errorf("Sweep = %q, %v", words, err)
			}
		}},
		{"shim killed and its state lost, then swept", func(t *testing.T, r *live) {
			if err := r.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = r.cmd.Wait()
			if err := os.Remove(filepath.Join(r.dir, stateFile)); err != nil {
				t.Fatal(err)
			}
			if _, err := Sweep(within(t), filepath.Dir(r.dir), 0); err != nil {
				t.Error(err)
			}
		}},
		{"swept while running", func(t *testing.T, r *live) {
			words, err := Sweep(within(t), filepath.Dir(r.dir), limit)
			if err != nil || !slices.Equal(words, []string{"r0 of m"}) {
				t.Errorf("Sweep = %q, %v", words, err)
			}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := startShim(t, nil, "--children", allShapes)
			r.line("serving")
			if found := marked(t, r.dir); len(found) != 1+helpers {
				t.Fatalf("before the end %d processes carry the mark, want %d", len(found), 1+helpers)
			}
			tt.end(t, r)
			r.nothingLeft()
		})
	}
}

func TestSharedMemoryIsTidiedUpAfterAKill(t *testing.T) {
	ends := map[string]func(r *live) error{
		"main process killed": func(r *live) error { return unix.Kill(r.client.State().PID, unix.SIGKILL) },
		"kill order":          func(r *live) error { return r.client.Kill() },
		"shim killed": func(r *live) error {
			if err := r.cmd.Process.Kill(); err != nil {
				return err
			}
			_ = r.cmd.Wait()
			_, err := Reap(within(r.t), r.dir)
			return err
		},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			r := startShim(t, nil, "--children", "tracker,group")
			r.line("serving")
			if err := end(r); err != nil {
				t.Fatal(err)
			}
			if err := r.client.WaitEnd(within(t)); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(filepath.Join(r.dir, "tidied")); err != nil {
				t.Errorf("the tracker was killed before it had done its work: %v", err)
			}
			r.nothingLeft()
		})
	}
}

func TestKilledHelperDoesNotEndTheEngine(t *testing.T) {
	r := startShim(t, nil, "--children", "double")
	r.line("serving")
	main := r.client.State().PID
	for _, p := range marked(t, r.dir) {
		if p.PID != main {
			if err := unix.Kill(p.PID, unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !proc.Is(main, r.client.State().Start) {
		t.Error("the main process ended with its helper")
	}
}

func TestStopEscalatesWhenTermIsIgnored(t *testing.T) {
	r := startShim(t, nil, "--ignore-term", "--children", "group")
	r.line("serving")
	begun := time.Now()
	if err := r.client.Stop(100 * time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if e := r.exited(); e.Signal != syscall.SIGKILL {
		t.Errorf("ended with %+v, want SIGKILL", e)
	}
	r.gone()
	if took := time.Since(begun); took < groupGrace {
		t.Errorf("killed after %s, before the group's own %s were over", took, groupGrace)
	}
	r.nothingLeft()
}

func TestKillOvertakesStop(t *testing.T) {
	r := startShim(t, nil, "--ignore-term")
	r.line("serving")
	if err := errors.Join(r.client.Stop(time.Hour), r.client.Kill()); err != nil {
		t.Fatal(err)
	}
	r.gone()
	r.nothingLeft()
}

func TestDeathIsToldAtOnce(t *testing.T) {
	r := startShim(t, nil)
	r.line("serving")
	killed := time.Now()
	if err := unix.Kill(r.client.State().PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	e := r.exited()
	// The bar is 20 ms on an idle machine; tests share two cores with others.
	if took := time.Since(killed); took > 500*time.Millisecond {
		t.Errorf("told after %s", took)
	}
	t.Logf("exit told %s after the kill", time.Since(killed))
	if e.At.Before(killed) {
		t.Errorf("exit time %s is before the kill at %s", e.At, killed)
	}
	r.gone()
}

func TestEngineOutlivesItsClients(t *testing.T) {
	r := startShim(t, nil)
	r.line("serving")
	r.client.Close()
	second, err := Connect(within(t), r.dir)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := second.State().PID, r.client.State().PID; got != want {
		t.Errorf("second client sees pid %d, want %d", got, want)
	}
	r.client = second
	if err := second.Follow(10); err != nil {
		t.Fatal(err)
	}
	r.line("serving") // kept for the one who comes later
	if err := second.Kill(); err != nil {
		t.Fatal(err)
	}
	r.gone()
}

func TestOrphanStopEndsAnEngineNobodyWatches(t *testing.T) {
	r := startShim(t, func(s *Spec) { s.OrphanStop = 50 * time.Millisecond })
	r.line("serving")
	r.client.Close()
	if err := r.client.WaitEnd(within(t)); err != nil {
		t.Error(err)
	}
	r.nothingLeft()
}

func TestStateFileTellsTheEnd(t *testing.T) {
	r := startShim(t, nil, "--say", "dying", "--exit-at-once", "7")
	r.line("dying")
	r.gone()
	s, err := ReadState(r.dir)
	if err != nil {
		t.Fatal(err)
	}
	if !s.Gone || s.Exit == nil || s.Exit.Code != 7 || s.Generation != 3 || s.ArgvHash == "" || s.BootID == "" {
		t.Errorf("state %+v", s)
	}
	if _, err := os.Stat(filepath.Join(r.dir, specFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the spec with the environment is still there: %v", err)
	}
}

func TestEngineServesWithoutItsLog(t *testing.T) {
	r := startShim(t, func(s *Spec) { s.LogDir = filepath.Join(s.Argv[0], "not-a-directory") })
	r.line("serving")
	if err := r.client.Kill(); err != nil {
		t.Fatal(err)
	}
	r.gone()
	if s, err := ReadState(r.dir); err != nil || s.LostLines == 0 {
		t.Errorf("%d lines counted as lost, %v", s.LostLines, err)
	}
}

func TestNoTwoEnginesOnOneGPU(t *testing.T) {
	gpu := func(s *Spec) { s.GPUUUIDs = []string{"GPU-1"} }
	first := startShim(t, gpu)
	other := filepath.Join(filepath.Dir(first.dir), "r1")
	spec := testSpec(t, other)
	gpu(&spec)
	_, err := launch(t, other, spec)
	if err == nil || !strings.Contains(err.Error(), "GPU GPU-1 runs another engine") || !strings.Contains(err.Error(), "r0 of m") {
		t.Errorf("second engine on the GPU: %v", err)
	}
	_, err = launch(t, first.dir, testSpec(t, first.dir))
	if err == nil || !strings.Contains(err.Error(), "another engine of this replica still runs") {
		t.Errorf("second engine of the replica: %v", err)
	}
}

func TestStartFailsWithTheReason(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Spec)
		want   string
	}{
		{"no such program", func(s *Spec) { s.Argv = []string{s.Argv[0] + "-missing"} }, "cannot start"},
		{"not in the path", func(s *Spec) { s.Argv = []string{"no-such-engine"} }, "cannot find no-such-engine in the engine's PATH"},
		{"no such core", func(s *Spec) { s.CPUs = []int{1023} }, "cannot bind the engine to cores [1023]"},
		{"not a socket", func(s *Spec) { s.Address = "unix:" + s.Argv[0] }, "is not a socket"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(runtimeDir(t), "r0")
			spec := testSpec(t, dir)
			tt.change(&spec)
			_, err := launch(t, dir, spec)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestEngineGetsItsCoresAndAStaleSocketIsRemoved(t *testing.T) {
	dir := runtimeDir(t)
	socket := filepath.Join(dir, "e.sock")
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: socket}); err != nil {
		t.Fatal(err)
	}
	r := startShim(t, func(s *Spec) { s.CPUs, s.Address = []int{0}, "unix:"+socket }, "--socket", socket)
	r.line("serving")
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(r.client.State().PID, &set); err != nil {
		t.Fatal(err)
	}
	if set.Count() != 1 || !set.IsSet(0) {
		t.Errorf("engine may use %d cores", set.Count())
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.client.State().PID))
	if err != nil {
		t.Fatal(err)
	}
	if ignored := ignoredSignals(t, string(status)); ignored != 0 {
		t.Errorf("the engine inherited ignored signals: %#x", ignored)
	}
	limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", r.client.State().PID))
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`Max core file size +0 +0 `).Match(limits) {
		t.Errorf("the engine may dump its core:\n%s", limits)
	}
}

// ignoredSignals is the mask of SigIgn in a /proc/PID/status without signals 32
// and 33, which the C library keeps to itself and nobody can set back.
func ignoredSignals(t *testing.T, status string) uint64 {
	t.Helper()
	_, rest, _ := strings.Cut(status, "SigIgn:\t")
	hex, _, _ := strings.Cut(rest, "\n")
	mask, err := strconv.ParseUint(hex, 16, 64)
	if err != nil {
		t.Fatalf("no SigIgn in %s: %v", status, err)
	}
	return mask &^ (1<<31 | 1<<32)
}
