package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/lm-warden/warden/supervisor"
	"github.com/lm-warden/warden/supervisor/machine"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestHealthTracker(t *testing.T) {
	good, late := Result{status: 200}, Result{err: context.DeadlineExceeded}
	tests := []struct {
		name    string
		answers []Result
		want    machine.Event
	}{
		{"one good", []Result{good}, nil},
		{"two good", []Result{good, good}, machine.Healthy{}},
		{"late twice", []Result{late, late}, nil},
		{"late three times", []Result{late, late, late}, machine.Slow{Why: "/health is slow"}},
		{"good in between", []Result{late, late, good, late, late}, nil},
		{"good once after late", []Result{late, late, late, good}, nil},
		{"500 three times", []Result{{status: 500}, {status: 500}, {status: 500}}, machine.Slow{Why: "/health answers 500"}},
		{"503", []Result{good, {status: 503}}, machine.Dead{Why: "the engine reports that its core is dead"}},
		{"refused", []Result{{err: fmt.Errorf("dial: %w", syscall.ECONNREFUSED)}}, machine.Dead{Why: "the engine no longer listens"}},
		{"socket removed", []Result{{err: &net.OpError{Op: "dial", Addr: &net.UnixAddr{Name: "/run/r0.sock"}, Err: syscall.ENOENT}}},
			machine.Dead{Why: "its socket /run/r0.sock was removed"}},
		{"reset three times", []Result{{err: syscall.ECONNRESET}, {err: syscall.ECONNRESET}, {err: syscall.ECONNRESET}},
			machine.Slow{Why: "/health fails: connection reset by peer"}},
		{"no descriptors for asking", []Result{{err: syscall.EMFILE}, {err: syscall.EMFILE}, {err: os.NewSyscallError("epoll_ctl", syscall.ENOSPC)}}, nil},
		{"good around it", []Result{good, {err: syscall.EMFILE}, good}, machine.Healthy{}},
	}
	for _, tt := range tests {
		var h HealthTracker
		var last machine.Event
		for _, a := range tt.answers {
			last = h.Observe(a, false)
		}
		if last != tt.want {
			t.Errorf("%s: %#v, want %#v", tt.name, last, tt.want)
		}
	}
}

// Held work that stands still makes a late answer weigh more; a wrong answer comes from an engine that runs.
func TestHealthTrackerWithSilentWork(t *testing.T) {
	late, wrong := Result{err: context.DeadlineExceeded}, Result{status: 500}
	for name, tt := range map[string]struct {
		answer Result
		silent bool
		want   int // answers until it is suspect
	}{
		"late, tokens flow": {late, false, 3}, "late and silent": {late, true, 2},
		"wrong, tokens flow": {wrong, false, 3}, "wrong and silent": {wrong, true, 3},
	} {
		var h HealthTracker
		n := 1
		for h.Observe(tt.answer, tt.silent) == nil && n < 10 {
			n++
		}
		if n != tt.want {
			t.Errorf("%s: suspect after %d answers, want %d", name, n, tt.want)
		}
	}
}

func TestFailureTracker(t *testing.T) {
	var f FailureTracker
	at := func(s int) bool {
		return f.Observe(errors.New("reset"), t0.Add(time.Duration(s)*time.Second)) != nil
	}
	for _, tt := range []struct {
		second int
		want   bool
	}{{0, false}, {11, false}, {20, true}, {40, false}, {41, true}, {42, true}} {
		if got := at(tt.second); got != tt.want {
			t.Errorf("failure at %d s: suspicion %v, want %v", tt.second, got, tt.want)
		}
	}
}

func TestStallTracker(t *testing.T) {
	busy := supervisor.Work{Held: 1}
	type step struct {
		work  supervisor.Work
		stats supervisor.EngineStats
		must  bool
		want  time.Duration // at one minute after the step before
	}
	tests := []struct {
		name  string
		steps []step
	}{
		{"idle", []step{{want: 0}, {want: 0}}},
		{"held and still", []step{{work: busy, want: 0}, {work: busy, want: time.Minute}, {work: busy, want: 2 * time.Minute}}},
		{"work begins late", []step{{}, {}, {work: busy, want: time.Minute}}},
		{"cache use moves", []step{{work: busy}, {work: busy, stats: supervisor.EngineStats{KVUsed: 0.1}}, {work: busy, stats: supervisor.EngineStats{KVUsed: 0.1}, want: time.Minute}}},
		{"steps", []step{{work: busy}, {work: busy, stats: supervisor.EngineStats{Iterations: 3}}}},
		{"prompt tokens", []step{{work: busy}, {work: busy, stats: supervisor.EngineStats{PromptTokens: 3}}}},
		{"the gauges alone are no progress", []step{{work: busy}, {work: busy, stats: supervisor.EngineStats{Running: 3, Waiting: 1}, want: time.Minute}}},
		{"bytes", []step{{work: busy}, {work: supervisor.Work{Held: 1, LastByte: t0}}}},
		{"owes an answer", []step{{must: true}, {must: true, want: time.Minute}}},
	}
	for _, tt := range tests {
		var s StallTracker
		for i, st := range tt.steps {
			if got := s.Observe(st.work, st.stats, st.must, t0.Add(time.Duration(i)*time.Minute)); got != st.want {
				t.Errorf("%s, step %d: stalled for %s, want %s", tt.name, i, got, st.want)
			}
		}
	}
	var s StallTracker
	s.Observe(busy, supervisor.EngineStats{}, false, t0)
	s.Answered(t0.Add(time.Hour))
	if got := s.Observe(busy, supervisor.EngineStats{}, false, t0.Add(time.Hour+time.Second)); got != time.Second {
		t.Errorf("after an answered canary: %s", got)
	}
}

func TestAskFindsTheAPIThatTheModelHas(t *testing.T) {
	tests := []struct {
		name    string
		answers map[string]int
		paths   []string
		fails   string
	}{
		{"chat", map[string]int{"/v1/chat/completions": 200}, []string{"/v1/chat/completions"}, ""},
		{"no template", map[string]int{"/v1/chat/completions": 400, "/v1/completions": 200}, []string{"/v1/chat/completions", "/v1/completions"}, ""},
		{"embeddings", map[string]int{"/v1/embeddings": 200}, []string{"/v1/chat/completions", "/v1/completions", "/v1/embeddings"}, ""},
		{"broken", map[string]int{"/v1/chat/completions": 500, "/v1/completions": 200}, []string{"/v1/chat/completions"}, "/v1/chat/completions answers 500: no"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var paths []string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				paths = append(paths, r.URL.Path)
				var body struct {
					Model string `json:"model"`
				}
				if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body.Model != "m" {
					t.Errorf("body %+v, %v", body, err)
				}
				status := tt.answers[r.URL.Path]
				if status == 0 {
					status = 404
				}
				http.Error(w, "no", status)
			}))
			defer server.Close()
			p, err := New(server.URL, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			err = p.Ask(t.Context(), "m")
			if (err != nil) != (tt.fails != "") || (err != nil && !strings.Contains(err.Error(), tt.fails)) {
				t.Errorf("error %v, want %q", err, tt.fails)
			}
			if diff := cmp.Diff(tt.paths, paths); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestProbeOfASocketThatIsNotThere(t *testing.T) {
	p, err := New("unix:"+filepath.Join(t.TempDir(), "none"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if r := p.Health(t.Context(), time.Second); !r.refused() || strings.Contains(r.String(), "http://") {
		t.Errorf("%v", r)
	}
}

// Connections that were made before go on working when the socket is gone, while nobody else can come in.
func TestHealthIsAskedOverANewConnection(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	listener.(*net.UnixListener).SetUnlinkOnClose(false)
	server := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
	go server.Serve(listener)
	defer server.Close()
	p, err := New("unix:"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if r := p.Health(t.Context(), time.Minute); !r.Good() {
		t.Fatal(r)
	}
	if _, _, err := p.do(t.Context(), http.MethodGet, "/metrics", nil, maxMetrics); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	r := p.Health(t.Context(), time.Minute)
	var h HealthTracker
	if ev := h.Observe(r, false); ev != (machine.Dead{Why: "its socket " + path + " was removed"}) {
		t.Errorf("%v makes %#v", r, ev)
	}
}

// The wall clock is set back and forth by an hour while all is well: the router's last byte comes as wall time.
func TestStallTrackerSurvivesClockJumps(t *testing.T) {
	for _, jump := range []time.Duration{time.Hour, -time.Hour} {
		var stall StallTracker
		for i := range 600 {
			now := t0.Add(time.Duration(i) * time.Second)
			lastByte := now
			if i >= 300 {
				lastByte = now.Add(jump)
			}
			if still := stall.Observe(supervisor.Work{Held: 1, LastByte: lastByte}, supervisor.EngineStats{}, false, now); still > time.Second {
				t.Fatalf("jump of %s: %s without progress at second %d, though bytes came all the time", jump, still, i)
			}
		}
	}
}
