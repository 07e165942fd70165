//go:build vllm

package setup

import (
	"os"
	"path/filepath"
	"testing"
)

// TestRealSetup makes the CPU environment that the other tests with the tag
// vllm use, in warden's cache directory, or confirms the one that is there.
// The first run downloads about 3.5 GB and takes some minutes.
func TestRealSetup(t *testing.T) {
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, "warden")
	env, err := Setup(t.Context(), Options{Dir: dir, Device: CPU, Progress: func(s Step) {
		t.Logf("%d/%d %-12s %-8s %6.1fs %s", s.Number, s.Total, s.Name, s.Status, s.Elapsed.Seconds(), s.Detail)
	}})
	if err != nil {
		t.Fatal(err)
	}
	if env.Version != DefaultVersion || env.Device != CPU || env.Torch == "" {
		t.Errorf("environment = %+v", env)
	}
	if found := Find(dir, CPU); len(found) == 0 || found[0] != env {
		t.Errorf("Find = %+v, want %+v first", found, env)
	}
}
