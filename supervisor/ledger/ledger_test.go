package ledger

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lm-warden/warden/supervisor"
)

var spec = supervisor.Spec{ID: "r0", Model: "m", Device: supervisor.DeviceCUDA}

func open(t *testing.T, dir, boot string) *Ledger {
	t.Helper()
	l, err := Open(dir, boot)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestWhatIsKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	l := open(t, dir, "boot-1")
	aside := supervisor.Aside{Cause: "XID 79", At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Gone: true}
	_, asideErr := l.SetAside("GPU-1", aside)
	for _, err := range []error{l.SetGeneration("r0", 7), l.SetLastStart(spec, 1500*time.Millisecond), asideErr} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for boot, want := range map[string]map[string]supervisor.Aside{"boot-1": {"GPU-1": aside}, "boot-2": {}} {
		again := open(t, dir, boot)
		if g, took := again.Generation("r0"), again.LastStart(spec); g != 7 || took != 1500*time.Millisecond {
			t.Errorf("%s: generation %d, last start %s", boot, g, took)
		}
		if diff := cmp.Diff(want, again.Asides()); diff != "" {
			t.Errorf("%s: %s", boot, diff)
		}
	}
	two := spec
	two.TP = 2
	if took := l.LastStart(two); took != 0 {
		t.Errorf("another way to run the model takes its time from this one: %s", took)
	}
}

func TestWorseIsNews(t *testing.T) {
	l := open(t, "", "boot-1")
	for i, tt := range []struct {
		aside supervisor.Aside
		news  bool
	}{
		{supervisor.Aside{Cause: "XID 119"}, true},
		{supervisor.Aside{Cause: "XID 119"}, false},
		{supervisor.Aside{Cause: "XID 79", Gone: true}, true},
		{supervisor.Aside{Cause: "XID 119"}, false},
	} {
		if news, err := l.SetAside("GPU-0", tt.aside); err != nil || news != tt.news {
			t.Errorf("%d: news %t, %v", i, news, err)
		}
	}
	if a, is := l.Aside([]string{"GPU-9", "GPU-0"}); !is || a.Cause != "XID 79" {
		t.Errorf("%t %+v", is, a)
	}
	if causes, err := l.TakeBack([]string{"GPU-0"}); err != nil || !cmp.Equal(causes, []string{"XID 79"}) {
		t.Errorf("%q, %v", causes, err)
	}
	if _, is := l.Aside([]string{"GPU-0"}); is {
		t.Error("still set aside")
	}
}

func TestDamagedFileIsAnEmptyLedger(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, fileName), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if l, err := Open(dir, ""); err == nil || l.Generation("r0") != 0 {
		t.Errorf("generation %d, %v", l.Generation("r0"), err)
	}
}

func TestNonsenseInAnEditedFile(t *testing.T) {
	dir := t.TempDir()
	text := `{"start_seconds": {"m cuda tp1": -3, "n cuda tp1": 1e300}, "generations": {"r0": 4}}`
	if err := os.WriteFile(filepath.Join(dir, fileName), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	l, other := open(t, dir, ""), spec
	other.Model = "n"
	if l.LastStart(spec) != 0 || l.LastStart(other) != 0 || l.Generation("r0") != 4 {
		t.Errorf("%s, %s, generation %d", l.LastStart(spec), l.LastStart(other), l.Generation("r0"))
	}
}

// A full disk is told of once, and again only after it was well.
func TestFailuresInARowAreToldOnce(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, "")
	l.path = filepath.Join(dir, "gone", fileName)
	if l.SetGeneration("r0", 1) == nil {
		t.Fatal("the first failure is not told")
	}
	if err := l.SetGeneration("r0", 2); err != nil {
		t.Errorf("told twice: %v", err)
	}
	if err := os.Mkdir(filepath.Join(dir, "gone"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := l.SetGeneration("r0", 3); err != nil {
		t.Error(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "gone")); err != nil {
		t.Fatal(err)
	}
	if l.SetGeneration("r0", 4) == nil {
		t.Error("a new failure is not told")
	}
}
