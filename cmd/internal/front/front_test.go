package front

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/lm-warden/warden/cmd/internal/livefile"
	"github.com/lm-warden/warden/router/keys"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func write(t *testing.T, file, content string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A changed file counts within seconds; one that cannot be used changes nothing
// and is told of in the log, to watchers and in the state, without its content.
func TestKeysAreReadAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	write(t, file, "first name=ann\n")
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var told []string
		f, err := Open(Options{KeysFile: file, Log: slog.New(slog.NewTextHandler(&log, nil)), Tell: func(s string) { told = append(told, s) }})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go f.Watch(ctx)
		knows := func(when string, first, second, problem bool) {
			t.Helper()
			<-time.After(3 * livefile.Every)
			synctest.Wait()
			_, one := f.Keys().Find("first")
			_, two := f.Keys().Find("second")
			_, own := f.Keys().Find(f.OwnKey())
			if one != first || two != second || !own || (f.State().Problem != nil) != problem || f.State().KeysStale != problem || f.State().CertificateStale {
				t.Errorf("%s: first %v, second %v, own %v, state %+v", when, one, two, own, f.State())
			}
		}
		knows("at first", true, false, false)
		write(t, file, "second\n")
		knows("replaced", false, true, false)
		write(t, file, "second\ntopsecret scope=all\n")
		knows("wrong scope", false, true, true)
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		knows("gone", false, true, true)
		write(t, file, "first\nsecond\n")
		knows("back", true, true, false)
		if err := os.Chmod(file, 0o644); err != nil {
			t.Fatal(err)
		}
		knows("open to all", true, true, true)
		if n := len(f.State().Keys); n != 2 {
			t.Errorf("%d keys are shown, want the 2 of the file", n)
		}
		if len(told) != 5 {
			t.Errorf("told %d times: %q", len(told), told)
		}
		if all := log.String() + strings.Join(told, " "); strings.Contains(all, "topsecret") || strings.Contains(all, f.OwnKey()) {
			t.Errorf("a key was told: %s", all)
		}
	})
}

// A file of which only a part was read is not written back.
func TestALargeFileIsNotCutOff(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	large := "plain name=bob\n" + strings.Repeat("#", keys.MaxFile)
	write(t, file, large)
	if n, err := HashKeys(file); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("%d hashed, %v", n, err)
	}
	if content, err := os.ReadFile(file); err != nil || string(content) != large {
		t.Errorf("%d bytes are left of %d, %v", len(content), len(large), err)
	}
}

func TestEditing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	ann := keys.Key{Hash: keys.HashOf("a"), Name: "ann", Scope: keys.Infer, MaxInFlight: 4}
	if err := AddKey(file, ann); err != nil {
		t.Fatal(err)
	}
	if err := RemoveKey(file, "ann"); err == nil || !strings.Contains(err.Error(), "the only key") {
		t.Errorf("the only key was removed: %v", err)
	}
	write(t, file, "# people\n"+ann.Line()+"plain name=bob") // without a last line end
	if err := AddKey(file, keys.Key{Hash: keys.HashOf("c"), Name: "ann", Scope: keys.Infer}); err == nil {
		t.Error("a name was given twice")
	} else if text := err.Error(); !strings.Contains(text, `"ann"`) || !strings.Contains(text, file) || !strings.Contains(text, "remove ann") {
		t.Errorf("a name given twice: %v", err)
	}
	if err := AddKey(file, keys.Key{Hash: keys.HashOf("c"), Scope: keys.Read}); err != nil {
		t.Fatal(err)
	}
	if n, err := HashKeys(file); n != 1 || err != nil {
		t.Errorf("%d hashed, %v", n, err)
	}
	if err := RemoveKey(file, "ann"); err != nil {
		t.Error(err)
	}
	if err := RemoveKey(file, "ann"); err == nil {
		t.Error("removed twice")
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(content), "# people\n") || strings.Contains(string(content), "plain") {
		t.Errorf("the file is now\n%s", content)
	}
	all, err := ReadKeys(file)
	if err != nil || len(all) != 2 || all[0].Name != "bob" || all[0].Hash != keys.HashOf("plain") || all[1].Scope != keys.Read {
		t.Errorf("%+v %v", all, err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(file), ".keys-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// A line that cannot be read stops every change, and is what is told: not that
// the key to take out is the only one.
func TestEditingABrokenFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	broken := "a name=ann\nb name=bob\nthis is no key\n"
	write(t, file, broken)
	for what, err := range map[string]error{
		"add":    AddKey(file, keys.Key{Hash: keys.HashOf("c"), Name: "cid", Scope: keys.Infer}),
		"remove": RemoveKey(file, "ann"),
	} {
		if err == nil || !strings.Contains(err.Error(), file+": line 3") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if content, err := os.ReadFile(file); err != nil || string(content) != broken {
		t.Errorf("the file is now %q, %v", content, err)
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	open := filepath.Join(dir, "open")
	write(t, open, "k\n")
	if err := os.Chmod(open, 0o640); err != nil {
		t.Fatal(err)
	}
	for want, o := range map[string]Options{
		"mode 0640": {KeysFile: open}, "no such file": {KeysFile: filepath.Join(dir, "none")},
		"private key": {CertFile: open, KeyFile: filepath.Join(dir, "none")},
	} {
		if _, err := Open(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
	}
	f, err := Open(Options{})
	if err != nil || f.Keys() != nil || f.OwnKey() != "" {
		t.Errorf("nothing configured: %+v %v", f, err)
	}
	f.Watch(t.Context()) // nothing to watch: returns
	if s := f.State(); s.Problem != nil || s.Keys != nil || s.Certificate != "" {
		t.Errorf("%+v", s)
	}
}
