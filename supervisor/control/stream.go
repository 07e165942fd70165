package control

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"time"
)

// stream bounds how many streams run at once.
func (s *Server) stream(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case s.streams <- struct{}{}:
			defer func() { <-s.streams }()
			next(w, r)
		default:
			writeError(w, &Error{Code: CodeTooManyStreams, Message: "too many event and log streams are open",
				Hint: "close a `warden top` or `warden logs -f`"})
		}
	}
}

// lineWriter writes NDJSON. Each write has its own deadline: a reader may take days, but not stop taking.
type lineWriter struct {
	w       http.ResponseWriter
	rc      *http.ResponseController
	timeout time.Duration
	log     *slog.Logger
}

func (s *Server) newLineWriter(w http.ResponseWriter) *lineWriter {
	w.Header().Set("Content-Type", "application/x-ndjson")
	return &lineWriter{w: w, rc: http.NewResponseController(w), timeout: s.opts.WriteTimeout, log: s.opts.Log}
}

// write may keep the line in a buffer until flush.
func (l *lineWriter) write(v any) error {
	line, err := json.Marshal(v)
	if err != nil { // a NaN in a figure: the stream ends, and nobody else would learn why
		l.log.Error("cannot encode a line for a control client", "err", err)
		return err
	}
	if err := l.rc.SetWriteDeadline(time.Now().Add(l.timeout)); err != nil {
		return err
	}
	_, err = l.w.Write(append(line, '\n'))
	return err
}

func (l *lineWriter) flush() error {
	if err := l.rc.SetWriteDeadline(time.Now().Add(l.timeout)); err != nil {
		return err
	}
	return l.rc.Flush()
}

// events tells one watcher what happens. Publishers never wait for it: its queue loses the oldest, and after a loss
// it gets a fresh snapshot, so that what it shows is true again.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	sub, recent := s.opts.Bus.SubscribeRecent(eventQueue, recentEvents)
	defer sub.Close()
	out := s.newLineWriter(w)
	var seen, lost uint64 // last sequence number sent; events dropped as last reported
	if n := len(recent); n > 0 {
		seen = recent[n-1].Seq
	}
	if out.write(Message{Status: s.status(), Recent: recent}) != nil {
		return
	}
	tick := time.NewTicker(s.opts.Heartbeat)
	defer tick.Stop()
	for {
		if len(sub.C()) == 0 && out.flush() != nil {
			return
		}
		var msg Message
		select {
		case <-r.Context().Done():
			return
		case <-tick.C:
			msg.Status = s.status()
		case e, open := <-sub.C():
			if !open {
				return
			}
			if e.Seq <= seen {
				continue // the snapshot already told it
			}
			seen = e.Seq
			msg.Event = &e
		}
		if n := sub.Dropped(); n != lost {
			lost = n
			msg = Message{Status: s.status(), Recent: s.opts.Bus.Recent(recentEvents), Dropped: lost}
			if k := len(msg.Recent); k > 0 {
				seen = max(seen, msg.Recent[k-1].Seq)
			}
		}
		if out.write(msg) != nil {
			return
		}
	}
}

// logs sends log lines. An error after the first line can only travel in band.
func (s *Server) logs(w http.ResponseWriter, r *http.Request) {
	q, err := parseLogQuery(r.URL.Query())
	if err != nil {
		writeError(w, err)
		return
	}
	var out *lineWriter
	for line, err := range s.opts.Daemon.Logs(r.Context(), q) {
		if err != nil && r.Context().Err() != nil {
			return
		}
		if err != nil && out == nil {
			writeError(w, err)
			return
		}
		if out == nil {
			out = s.newLineWriter(w)
		}
		if err != nil {
			line = LogLine{Error: asError(err)}
		}
		if out.write(line) != nil || err != nil {
			return
		}
		if q.Follow && out.flush() != nil {
			return
		}
	}
	if out == nil {
		s.newLineWriter(w) // no line is an answer too
	}
}
