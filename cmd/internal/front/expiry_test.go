package front

import (
	"bytes"
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lm-warden/warden/cmd/internal/front/fronttest"
)

// days lets some of them pass.
func days(n int) {
	<-time.After(time.Duration(n) * 24 * time.Hour)
	synctest.Wait()
}

// reminded counts what was told.
type reminded struct {
	mu   sync.Mutex // of what goroutines write that go on
	log  bytes.Buffer
	told int
	*Front
}

func (r *reminded) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.Write(p)
}

func (r *reminded) tell(string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told++
}

func open(t *testing.T, cert, key string) *reminded {
	t.Helper()
	r := &reminded{}
	f, err := Open(Options{CertFile: cert, KeyFile: key, Log: slog.New(slog.NewTextHandler(r, nil)), Tell: r.tell})
	if err != nil {
		t.Fatal(err)
	}
	r.Front = f
	return r
}

func (r *reminded) want(t *testing.T, soon, expired int) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	s, e := strings.Count(r.log.String(), "level=WARN"), strings.Count(r.log.String(), "level=ERROR")
	if s != soon || e != expired || r.told != soon+expired {
		t.Errorf("told %d times that it expires soon, %d times that it has, %d times to watchers, want %d and %d", s, e, r.told, soon, expired)
	}
}

// A certificate is valid for 30 days: from the 17th on it is said every day that
// it ends, and no longer once it is renewed.
func TestExpiryIsToldEveryDay(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	synctest.Test(t, func(t *testing.T) {
		fronttest.Certificate(t, cert, key, 1)
		r := open(t, cert, key)
		r.Warn(true)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go r.remind(ctx)
		days(16) // 14 are left
		r.want(t, 0, 0)
		days(3)
		r.want(t, 3, 0)
		days(14) // the day of its end, and three more
		r.want(t, 13, 4)
		fronttest.Certificate(t, cert, key, 2)
		if err := r.certificate.Reload(cert, key); err != nil {
			t.Fatal(err)
		}
		days(10)
		r.want(t, 13, 4)
	})
}

// Who starts with a certificate that ends is told at once, and the day after
// while files are watched.
func TestWatchingReminds(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	synctest.Test(t, func(t *testing.T) {
		fronttest.Certificate(t, cert, key, 1)
		days(20)
		r := open(t, cert, key)
		r.Warn(true)
		r.want(t, 1, 0)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go r.Watch(ctx)
		days(1)
		r.want(t, 2, 0)
	})
}
