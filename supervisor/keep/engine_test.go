package keep

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/lm-warden/warden/supervisor"
)

// textEngine is an Engine for processes that speak plainly: lines "phase NAME DONE/TOTAL" and "fatal: CAUSE",
// metrics "tokens N".
type textEngine struct{ argv []string }

func (e textEngine) Command(s supervisor.Spec) (supervisor.Command, error) {
	if len(s.Args) > 0 && s.Args[0] == "--impossible" {
		return supervisor.Command{}, errors.New("--impossible is no flag")
	}
	return supervisor.Command{Argv: append(e.argv, s.Args...), Env: []string{"PATH=/usr/bin:/bin", "HF_TOKEN=secret-token-value"}}, nil
}

func (textEngine) Phase(line string) (supervisor.Phase, bool) {
	var p supervisor.Phase
	if n, _ := fmt.Sscanf(line, "phase %s %d/%d", &p.Name, &p.Done, &p.Total); n >= 1 {
		return p, true
	}
	return p, false
}

func (textEngine) ParseStats(r io.Reader, at time.Time) (supervisor.EngineStats, error) {
	s := supervisor.EngineStats{At: at}
	_, err := fmt.Fscanf(r, "tokens %d\n", &s.GenerationTokens)
	return s, err
}

func (textEngine) Diagnose(lines []string, _ supervisor.Exit) supervisor.Diagnosis {
	for _, l := range lines {
		if cause, found := strings.CutPrefix(l, "fatal: "); found {
			return supervisor.Diagnosis{Cause: cause, Permanent: true, Line: l}
		}
	}
	return supervisor.Diagnosis{}
}

// memEngine is the HTTP side of one engine process, reached without a network so that it lives in synctest's time.
type memEngine struct {
	name     string
	health   atomic.Int64 // status to answer; 0 = 200
	stalled  atomic.Bool  // nothing answers, not even /health
	hung     atomic.Bool  // requests are not answered, everything else is
	tokens   atomic.Uint64
	requests atomic.Int64
	listener *memListener
	server   *http.Server
}

func newMemEngine(name string) *memEngine {
	e := &memEngine{name: name, listener: &memListener{conns: make(chan net.Conn), done: make(chan struct{})}}
	e.server = &http.Server{Handler: e}
	go e.server.Serve(e.listener)
	return e
}

func (e *memEngine) close() { e.server.Close() }

func (e *memEngine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if e.stalled.Load() || (e.hung.Load() && r.Method == http.MethodPost) {
		io.Copy(io.Discard, r.Body) // or the server would not notice that the client left
		<-r.Context().Done()
		return
	}
	switch r.URL.Path {
	case "/health":
		if s := e.health.Load(); s != 0 {
			w.WriteHeader(int(s))
		}
	case "/v1/models":
		json.NewEncoder(w).Encode(map[string]any{"data": []map[string]any{{"id": e.name, "max_model_len": 4096}}})
	case "/version":
		json.NewEncoder(w).Encode(map[string]any{"version": "1.2.3"})
	case "/metrics":
		fmt.Fprintf(w, "tokens %d\n", e.tokens.Load())
	case "/v1/completions":
		e.requests.Add(1)
		e.tokens.Add(1)
	default:
		http.Error(w, "no chat template", http.StatusBadRequest)
	}
}

type memListener struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func (l *memListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *memListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *memListener) Addr() net.Addr { return &net.UnixAddr{Name: "memory"} }

func (l *memListener) dial(ctx context.Context) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case l.conns <- theirs:
		return ours, nil
	case <-l.done:
		return nil, syscall.ECONNREFUSED
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
