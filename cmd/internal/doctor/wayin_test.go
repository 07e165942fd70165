package doctor

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/lm-warden/warden/configs"
)

// What a start would refuse is found, and the look leaves nothing behind.
func TestLookAtWayIn(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	write(t, path("keys"), "secret name=ann\n")
	if err := os.Chmod(path("keys"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := LookAtWayIn(configs.Config{APIKeysFile: path("keys"), AccessLog: path("new.log")})
	if w.Keys != 1 || w.KeysErr != nil || w.CertErr != nil || w.LogErr != nil {
		t.Errorf("%+v", w)
	}
	for _, log := range []string{dir, path("none/a.log"), path("keys/a.log")} {
		if LookAtWayIn(configs.Config{AccessLog: log}).LogErr == nil {
			t.Errorf("an access log could be written to %s", log)
		}
	}
	w = LookAtWayIn(configs.Config{APIKeysFile: path("none"), TLSCert: path("keys"), TLSKey: path("keys")})
	if w.KeysErr == nil || w.CertErr == nil {
		t.Errorf("%+v", w)
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("the look made files: %v", left)
	}
}
