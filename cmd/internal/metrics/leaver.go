package metrics

import (
	"log/slog"
	"net/http"
)

// patient keeps a scraper's going away from h, which would take it for a fault
// of every metric that is still to be written.
func patient(h http.Handler, log *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := &patientWriter{ResponseWriter: w}
		h.ServeHTTP(p, r)
		if p.err != nil {
			log.Debug("a scrape was aborted", "err", p.err)
		}
	})
}

// patientWriter takes everything; what comes after the first failure is lost.
type patientWriter struct {
	http.ResponseWriter
	err error
}

func (p *patientWriter) Write(b []byte) (int, error) {
	if p.err == nil {
		_, p.err = p.ResponseWriter.Write(b)
	}
	return len(b), nil
}

func (p *patientWriter) Unwrap() http.ResponseWriter { return p.ResponseWriter }
