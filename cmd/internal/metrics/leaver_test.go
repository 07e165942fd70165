package metrics

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
)

// leaver is a scraper that goes away after some bytes.
type leaver struct {
	http.ResponseWriter
	room int
}

func (l *leaver) Write(p []byte) (int, error) {
	if l.room -= len(p); l.room < 0 {
		return 0, syscall.EPIPE
	}
	return len(p), nil
}

// A scraper that goes away is no fault of any metric: one line for those who
// look for it.
func TestAbortedScrapeIsOneQuietLine(t *testing.T) {
	for _, room := range []int{0, 2000} {
		var log bytes.Buffer
		o := fleet()
		o.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		New(o).ServeHTTP(&leaver{ResponseWriter: httptest.NewRecorder(), room: room}, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "level=DEBUG") || !strings.Contains(text, "broken pipe") {
			t.Errorf("gone after %d bytes:\n%s", room, text)
		}
	}
}
