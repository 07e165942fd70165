package control

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/pprof"
	"net/url"
	"strconv"
	"time"
)

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/status", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, s.status()) })
	mux.HandleFunc("GET /v1/version", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, s.opts.Daemon.Version()) })
	mux.HandleFunc("GET /v1/config", s.config)
	mux.HandleFunc("GET /v1/history", s.history)
	mux.HandleFunc("GET /v1/events", s.stream(s.events))
	mux.HandleFunc("GET /v1/logs", s.stream(s.logs))
	mux.HandleFunc("PUT /v1/models/{alias}/affinity", s.affinity)
	mux.HandleFunc("PUT /v1/models/{alias}/spill", s.spill)
	mux.HandleFunc("POST /v1/replicas/{id}/{action}", s.replica)
	mux.HandleFunc("POST /v1/shutdown", s.shutdown)
	mux.HandleFunc("POST /v1/upgrade", s.unbounded(s.upgrade)) // the new process looks at the machine first
	mux.HandleFunc("GET /debug/pprof/", s.unbounded(pprof.Index))
	mux.HandleFunc("GET /debug/pprof/profile", s.unbounded(pprof.Profile))
	mux.HandleFunc("GET /debug/pprof/trace", s.unbounded(pprof.Trace))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeError(w, &Error{Code: CodeNotFound, Message: "no " + r.Method + " " + r.URL.Path + " on the control socket",
			Hint: "client and daemon may be of different versions: `warden version`"})
	})
	return mux
}

// status is the Daemon's answer with what every answer carries.
func (s *Server) status() *Status {
	st := s.opts.Daemon.Status()
	st.Schema = Schema
	if st.Now.IsZero() {
		st.Now = time.Now()
	}
	return &st
}

func (s *Server) config(w http.ResponseWriter, _ *http.Request) {
	c, err := s.opts.Daemon.Config()
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, c)
}

func (s *Server) affinity(w http.ResponseWriter, r *http.Request) {
	var req affinityRequest
	if err := readJSON(r.Body, &req); err != nil {
		writeError(w, err)
		return
	}
	var change AffinityChange
	var err error
	switch model := r.PathValue("alias"); req.Mode {
	case "on", "off":
		change, err = s.opts.Daemon.SetAffinity(r.Context(), model, req.Mode == "on")
	case PolicyBalance, PolicyAffinity, PolicyAdmission:
		change, err = s.opts.Daemon.SetPolicy(r.Context(), model, req.Mode)
	default:
		err = badRequest("affinity mode " + strconv.Quote(req.Mode) + " is not one of on, off, balance, affinity, admission")
	}
	answer(w, http.StatusOK, change, err)
}

func (s *Server) spill(w http.ResponseWriter, r *http.Request) {
	var req spillRequest
	if err := readJSON(r.Body, &req); err != nil {
		writeError(w, err)
		return
	}
	if req.Limit == nil || *req.Limit < 0 {
		writeError(w, badRequest("spill limit must be 1 or more, or 0 for automatic"))
		return
	}
	change, err := s.opts.Daemon.SetSpillLimit(r.Context(), r.PathValue("alias"), *req.Limit)
	answer(w, http.StatusOK, change, err)
}

func (s *Server) replica(w http.ResponseWriter, r *http.Request) {
	action := ReplicaAction(r.PathValue("action"))
	switch action {
	case Restart, Drain, Undrain, Kill, Retry:
	default:
		writeError(w, &Error{Code: CodeNotFound, Message: "no replica action " + strconv.Quote(string(action)),
			Hint: "restart, drain, undrain, kill, retry"})
		return
	}
	accepted, err := s.opts.Daemon.Replica(r.Context(), r.PathValue("id"), action)
	answer(w, http.StatusAccepted, accepted, err)
}

func (s *Server) shutdown(w http.ResponseWriter, r *http.Request) {
	var req ShutdownRequest
	if err := readJSON(r.Body, &req); err != nil {
		writeError(w, err)
		return
	}
	answer(w, http.StatusAccepted, struct{}{}, s.opts.Daemon.Shutdown(r.Context(), req))
}

func (s *Server) upgrade(w http.ResponseWriter, r *http.Request) {
	u, ok := s.opts.Daemon.(Upgrader)
	if !ok {
		writeError(w, &Error{Code: CodeNotFound, Message: "this daemon cannot be taken over from"})
		return
	}
	next, err := u.Upgrade(r.Context())
	answer(w, http.StatusAccepted, next, err)
}

// unbounded lifts the write deadline: some answers take as long as they were asked to.
func (s *Server) unbounded(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := http.NewResponseController(w).SetWriteDeadline(time.Time{}); err != nil {
			s.opts.Log.Debug("cannot lift the write deadline", "err", err)
		}
		next(w, r)
	}
}

type affinityRequest struct {
	Mode string `json:"mode"`
}

type spillRequest struct {
	Limit *int `json:"limit"`
}

func badRequest(message string) *Error { return &Error{Code: CodeBadRequest, Message: message} }

// readJSON reads one JSON value; an empty body leaves v as it is. Unknown fields are refused so that a misspelt
// field is not silently a default.
func readJSON(body io.Reader, v any) error {
	raw, err := io.ReadAll(body)
	if err != nil {
		return badRequest("cannot read the request: " + err.Error())
	}
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return badRequest("cannot read the request: " + err.Error())
	}
	if dec.More() {
		return badRequest("cannot read the request: more than one JSON value")
	}
	return nil
}

// parseLogQuery reads the query of GET /v1/logs.
func parseLogQuery(v url.Values) (LogQuery, error) {
	q := LogQuery{Replicas: v["replica"]}
	var err error
	if s := v.Get("tail"); s != "" {
		if q.Tail, err = strconv.Atoi(s); err != nil || q.Tail < 0 {
			return q, badRequest("tail " + strconv.Quote(s) + " is not a number of lines")
		}
	}
	if s := v.Get("since"); s != "" {
		if q.Since, err = time.Parse(time.RFC3339Nano, s); err != nil {
			return q, badRequest("since " + strconv.Quote(s) + " is not an RFC 3339 time")
		}
	}
	for name, dst := range map[string]*bool{"follow": &q.Follow, "previous": &q.Previous} {
		if s := v.Get(name); s != "" {
			if *dst, err = strconv.ParseBool(s); err != nil {
				return q, badRequest(name + " " + strconv.Quote(s) + " is neither 1 nor 0")
			}
		}
	}
	if q.Follow && q.Previous {
		return q, badRequest("the previous run has ended, it cannot be followed")
	}
	return q, nil
}

// values is the inverse of parseLogQuery.
func (q LogQuery) values() url.Values {
	v := url.Values{}
	if len(q.Replicas) > 0 {
		v["replica"] = q.Replicas
	}
	if q.Tail > 0 {
		v.Set("tail", strconv.Itoa(q.Tail))
	}
	if !q.Since.IsZero() {
		v.Set("since", q.Since.Format(time.RFC3339Nano))
	}
	if q.Follow {
		v.Set("follow", "1")
	}
	if q.Previous {
		v.Set("previous", "1")
	}
	return v
}

func answer(w http.ResponseWriter, code int, v any, err error) {
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, code, v)
}

// asError gives every error the wire's form.
func asError(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Code: CodeInternal, Message: err.Error()}
}

type errorBody struct {
	Error *Error `json:"error"`
}

func writeError(w http.ResponseWriter, err error) {
	e := asError(err)
	writeJSON(w, e.status(), errorBody{e})
}

func writeJSON(w http.ResponseWriter, code int, v any) {
	body, err := json.Marshal(v)
	if err != nil { // a NaN in a figure: say so rather than send half an answer
		code = http.StatusInternalServerError
		body, _ = json.Marshal(errorBody{&Error{Code: CodeInternal, Message: "cannot encode the answer: " + err.Error()}})
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	w.Write(append(body, '\n')) // a client that left is no news
}
