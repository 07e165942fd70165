package benchpath

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The whole of it, small: the built program and its engines, beside no proxy.
func TestWardenBesideNone(t *testing.T) {
	dir := t.TempDir()
	warden := filepath.Join(dir, "warden")
	build := exec.Command("go", "build", "-o", warden, "../../warden")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	report, err := Run(t.Context(), Options{
		Warden: warden, Engine: self, Peers: dir, Arms: []string{noneName, wardenName}, Rounds: 1, Length: time.Second / 2,
		Quiet: []int{leastForMemory}, Loop: 16, Fast: 2, Bodies: []int{smallBody, agentBody}, Log: &log,
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	rows := report.Rows()
	if want := 2 * 5; len(rows) != want || len(report.Cells) != want {
		t.Fatalf("%d rows of %d cells, want %d\n%s", len(rows), len(report.Cells), want, log.String())
	}
	for _, r := range rows {
		measured := r.FirstByteP50 != nil || r.Requests-r.Streams < leastForP50
		if r.Failed > 0 || r.Requests < r.Streams || !measured {
			t.Errorf("%s through %s: %d of %d failed (%s), first byte %s", r.Work, r.Arm, r.Failed, r.Requests, r.FirstFailure, text(r.FirstByteP50))
		}
		if r.Arm == noneName {
			if r.cpu() != nil || r.RSSPerStream != nil {
				t.Errorf("%s: no proxy takes %s of CPU", r.Work, text(r.cpu()))
			}
			continue
		}
		if c := r.cpu(); c != nil && *c <= 0 || c == nil && r.Kind != paced {
			t.Errorf("%s: warden takes %s of CPU", r.Work, text(c))
		}
		if r.Kind == paced && (r.Goroutines == nil || *r.Goroutines < 0.9 || *r.Goroutines > 20 || r.RSSPerStream == nil) {
			t.Errorf("%s: %s goroutines and %s bytes a stream", r.Work, text(r.Goroutines), text(r.RSSPerStream))
		}
	}
	if len(report.Idle) != 1 || report.Idle[0].RSSBytes < 1<<20 {
		t.Errorf("idle %+v", report.Idle)
	}
	for _, bar := range report.Bars() {
		if strings.Contains(bar.Name, "HAProxy") && bar.Value != nil {
			t.Errorf("%+v, and HAProxy took no part", bar)
		}
	}
}

func TestUnknownArm(t *testing.T) {
	_, err := Run(t.Context(), Options{Arms: []string{"apache"}})
	if err == nil || !strings.Contains(err.Error(), `"apache"`) || !strings.Contains(err.Error(), "HAProxy") {
		t.Errorf("error %v", err)
	}
}

func TestWardenThatDoesNotStart(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()) // the logs of a failed run stay
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	_, err = Run(t.Context(), Options{Warden: "/bin/true", Engine: self, Arms: []string{wardenName}, Rounds: 1})
	if err == nil || !strings.Contains(err.Error(), "warden ended before it had all replicas ready") {
		t.Errorf("error %v", err)
	}
}
