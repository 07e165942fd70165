package simengine

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
)

// accessLog writes uvicorn's access lines.
type accessLog struct {
	off    bool
	except []string // paths
}

func newAccessLog(a *arguments) accessLog {
	return accessLog{
		off:    a.on("--disable-uvicorn-access-log"),
		except: strings.Split(a.last("--disable-access-log-for-endpoints"), ","),
	}
}

func (l accessLog) wrap(next http.Handler, out io.Writer) http.Handler {
	if l.off {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if slices.Contains(l.except, r.URL.Path) {
			next.ServeHTTP(w, r)
			return
		}
		seen := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		defer func() { // also when the handler breaks the answer off
			fmt.Fprintf(out, "INFO:     %s - \"%s %s %s\" %d %s\n", r.RemoteAddr, r.Method, r.URL.RequestURI(), r.Proto, seen.status, http.StatusText(seen.status))
		}()
		next.ServeHTTP(seen, r)
	})
}

// statusWriter notes the status; Unwrap keeps flushing possible.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
