package front

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lm-warden/warden/router/keys"
)

// Each of several editors at the same time finds what the others have written,
// also when none of them found a file.
func TestEditorsAtTheSameTimeLoseNothing(t *testing.T) {
	for name, before := range map[string]string{"a file that is there": "first name=first\n", "a new file": ""} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "keys")
			want := strings.Count(before, "\n")
			if before != "" {
				write(t, file, before)
			}
			const editors = 24
			var all sync.WaitGroup
			for i := range editors {
				all.Go(func() {
					key := fmt.Sprint("key", i)
					if err := AddKey(file, keys.Key{Hash: keys.HashOf(key), Name: key, Scope: keys.Infer}); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			if left, err := ReadKeys(file); err != nil || len(left) != want+editors {
				t.Errorf("%d keys, %v, want %d", len(left), err, want+editors)
			}
		})
	}
}

// An editor that hangs holds the others up for a bounded time, and they say so.
func TestAnEditorThatHangsIsNamed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	write(t, file, "first\n")
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		err := AddKey(file, keys.Key{Hash: keys.HashOf("second"), Name: "second", Scope: keys.Infer})
		if !errors.Is(err, errEdited) || !strings.Contains(err.Error(), file) || time.Since(began) > 2*lockTime {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

// What could not be done leaves no file that was not there before.
func TestARefusedEditMakesNoFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	if err := RemoveKey(file, "ann"); err == nil {
		t.Error("a key was removed from no file")
	}
	if _, err := HashKeys(file); err == nil {
		t.Error("no file was hashed")
	}
	bad := keys.Key{Hash: keys.HashOf("k"), Name: strings.Repeat("n", 50), Scope: keys.Infer}
	if err := AddKey(file, bad); err == nil {
		t.Error("a name that no file may hold was added")
	}
	if left, _ := os.ReadDir(filepath.Dir(file)); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// A file that was there is not taken away, empty or not.
func TestARefusedEditKeepsTheFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	write(t, file, "")
	if err := RemoveKey(file, "ann"); err == nil {
		t.Error("a key was removed from an empty file")
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
}
