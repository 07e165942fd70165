package livefile

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func write(t *testing.T, file, content string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestWatch(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, c := range []struct {
		name   string
		change func(t *testing.T)
		want   int
	}{
		{"nothing", func(*testing.T) {}, 0},
		{"other content", func(t *testing.T) { write(t, at("a"), "longer") }, 1},
		{"another file in its place", func(t *testing.T) {
			write(t, at("new"), "a")
			if err := os.Rename(at("new"), at("a")); err != nil {
				t.Fatal(err)
			}
		}, 1},
		{"the second file", func(t *testing.T) { write(t, at("b"), "longer") }, 1},
		{"its mode", func(t *testing.T) {
			if err := os.Chmod(at("a"), 0o640); err != nil {
				t.Fatal(err)
			}
		}, 1},
		{"its group", func(t *testing.T) {
			if os.Getuid() != 0 {
				t.Skip("only root can give a file to any group")
			}
			if err := os.Chown(at("a"), 0, 12345); err != nil {
				t.Fatal(err)
			}
		}, 1},
		{"gone", func(t *testing.T) {
			if err := os.Remove(at("a")); err != nil {
				t.Fatal(err)
			}
		}, 1},
		{"written slowly", func(t *testing.T) {
			<-time.After(Every / 2) // between two looks, not at the instant of one
			for n := range 5 {
				write(t, at("a"), "aaaaaaaaaa"[:n+2])
				<-time.After(Every)
			}
		}, 1},
		{"back before anybody looked", func(t *testing.T) {
			info, err := os.Stat(at("a"))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(at("a"), at("c")); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(at("c"), at("a")); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(at("a"), info.ModTime(), info.ModTime()); err != nil {
				t.Fatal(err)
			}
		}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			write(t, at("a"), "a")
			write(t, at("b"), "b")
			if err := os.Chmod(at("a"), 0o600); err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				calls := 0
				seen := Look(at("a"), at("b"))
				go seen.Watch(ctx, func() { calls++ })
				c.change(t)
				<-time.After(5*Every + Every/2)
				stop()
				synctest.Wait()
				if calls != c.want {
					t.Errorf("told %d times, want %d", calls, c.want)
				}
			})
		})
	}
}
