package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestHealthTracker(t *testing.T) {
	good, late := probeResult{status: 200}, probeResult{err: context.DeadlineExceeded}
	tests := []struct {
		name    string
		answers []probeResult
		want    event
	}{
		{"one good", []probeResult{good}, nil},
		{"two good", []probeResult{good, good}, healthy{}},
		{"late twice", []probeResult{late, late}, nil},
		{"late three times", []probeResult{late, late, late}, slow{"/health is slow"}},
		{"good in between", []probeResult{late, late, good, late, late}, nil},
		{"good once after late", []probeResult{late, late, late, good}, nil},
		{"500 three times", []probeResult{{status: 500}, {status: 500}, {status: 500}}, slow{"/health answers 500"}},
		{"503", []probeResult{good, {status: 503}}, dead{"the engine reports that its core is dead"}},
		{"refused", []probeResult{{err: fmt.Errorf("dial: %w", syscall.ECONNREFUSED)}}, dead{"the engine no longer listens"}},
		{"socket removed", []probeResult{{err: syscall.ENOENT}}, dead{"the engine no longer listens"}},
		{"reset three times", []probeResult{{err: syscall.ECONNRESET}, {err: syscall.ECONNRESET}, {err: syscall.ECONNRESET}},
			slow{"/health fails: connection reset by peer"}},
	}
	for _, tt := range tests {
		var h healthTracker
		var last event
		for _, a := range tt.answers {
			last = h.observe(a, false)
		}
		if last != tt.want {
			t.Errorf("%s: %#v, want %#v", tt.name, last, tt.want)
		}
	}
}

// Held work that stands still makes a late answer weigh more; a wrong answer comes from an engine that runs.
func TestHealthTrackerWithSilentWork(t *testing.T) {
	late, wrong := probeResult{err: context.DeadlineExceeded}, probeResult{status: 500}
	for name, tt := range map[string]struct {
		answer probeResult
		silent bool
		want   int // answers until it is suspect
	}{
		"late, tokens flow": {late, false, 3}, "late and silent": {late, true, 2},
		"wrong, tokens flow": {wrong, false, 3}, "wrong and silent": {wrong, true, 3},
	} {
		var h healthTracker
		n := 1
		for h.observe(tt.answer, tt.silent) == nil && n < 10 {
			n++
		}
		if n != tt.want {
			t.Errorf("%s: suspect after %d answers, want %d", name, n, tt.want)
		}
	}
}

func TestFailureTracker(t *testing.T) {
	var f failureTracker
	at := func(s int) bool { return f.observe(errors.New("reset"), t0.Add(time.Duration(s)*time.Second)) != nil }
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
	busy := Work{Held: 1}
	type step struct {
		work  Work
		stats EngineStats
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
		{"cache use moves", []step{{work: busy}, {work: busy, stats: EngineStats{KVUsed: 0.1}}, {work: busy, stats: EngineStats{KVUsed: 0.1}, want: time.Minute}}},
		{"steps", []step{{work: busy}, {work: busy, stats: EngineStats{Iterations: 3}}}},
		{"prompt tokens", []step{{work: busy}, {work: busy, stats: EngineStats{PromptTokens: 3}}}},
		{"the gauges alone are no progress", []step{{work: busy}, {work: busy, stats: EngineStats{Running: 3, Waiting: 1}, want: time.Minute}}},
		{"bytes", []step{{work: busy}, {work: Work{Held: 1, LastByte: t0}}}},
		{"owes an answer", []step{{must: true}, {must: true, want: time.Minute}}},
	}
	for _, tt := range tests {
		var s stallTracker
		for i, st := range tt.steps {
			if got := s.observe(st.work, st.stats, st.must, t0.Add(time.Duration(i)*time.Minute)); got != st.want {
				t.Errorf("%s, step %d: stalled for %s, want %s", tt.name, i, got, st.want)
			}
		}
	}
	var s stallTracker
	s.observe(busy, EngineStats{}, false, t0)
	s.answered(t0.Add(time.Hour))
	if got := s.observe(busy, EngineStats{}, false, t0.Add(time.Hour+time.Second)); got != time.Second {
		t.Errorf("after an answered canary: %s", got)
	}
}

func TestMemoryGate(t *testing.T) {
	const mb = 1 << 20
	tests := []struct {
		name     string
		baseline uint64
		reads    []uint64
		want     bool
	}{
		{"two reads", 0, []uint64{100 * mb, 100 * mb}, false},
		{"three equal", 0, []uint64{100 * mb, 100 * mb, 100 * mb}, true},
		{"a desktop's noise", 0, []uint64{9000 * mb, 9030 * mb, 9000 * mb}, true},
		{"still draining", 0, []uint64{100 * mb, 200 * mb, 300 * mb}, false},
		{"drained", 0, []uint64{100 * mb, 900 * mb, 900 * mb, 900 * mb}, true},
		{"stable but not back", 15000 * mb, []uint64{100 * mb, 100 * mb, 100 * mb, 100 * mb}, false},
		{"nearly back", 15000 * mb, []uint64{14600 * mb, 14600 * mb, 14600 * mb}, true},
	}
	for _, tt := range tests {
		g := memoryGate{baseline: tt.baseline}
		open := false
		for _, free := range tt.reads {
			open = g.observe(free)
		}
		if open != tt.want {
			t.Errorf("%s: open %v", tt.name, open)
		}
	}
}

func TestStartLogGoesForwardOnly(t *testing.T) {
	tests := []struct {
		name  string
		steps []Phase
		want  Phase
	}{
		{"forward", []Phase{{Name: "weights", Done: 1, Total: 2}, {Name: "graphs"}}, Phase{Name: "graphs"}},
		{"backward", []Phase{{Name: "graphs", Done: 3, Total: 9}, {Name: "weights", Done: 2, Total: 2}}, Phase{Name: "graphs", Done: 3, Total: 9}},
		{"bar back", []Phase{{Name: "weights", Done: 5, Total: 9}, {Name: "weights", Done: 2, Total: 9}}, Phase{Name: "weights", Done: 5, Total: 9}},
		{"bar of a second part", []Phase{{Name: "weights", Done: 9, Total: 9}, {Name: "weights", Done: 1, Total: 4}}, Phase{Name: "weights", Done: 1, Total: 4}},
		{"remark keeps the bar", []Phase{{Name: "weights", Done: 5, Total: 9}, {Name: "weights", Detail: "shards"}}, Phase{Name: "weights", Detail: "shards", Done: 5, Total: 9}},
		{"unknown", []Phase{{Name: "weights"}, {Name: "dancing"}}, Phase{Name: "weights"}},
		{"capacity stays", []Phase{{Name: "profile", KVTokens: 40000}, {Name: "serve"}}, Phase{Name: "serve", KVTokens: 40000}},
	}
	for _, tt := range tests {
		s := newStartLog(t0)
		for _, p := range tt.steps {
			s.advance(p, t0)
		}
		if diff := cmp.Diff(tt.want, s.phase); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
}

func TestStartLogKnowsNews(t *testing.T) {
	s := newStartLog(t0)
	lines := []struct {
		line LogLine
		news bool
	}{
		{LogLine{Text: "waiting, 10 s"}, true},
		{LogLine{Text: "waiting, 20 s"}, false},
		{LogLine{Text: "loaded"}, true},
		{LogLine{Text: "loaded"}, false},
		{LogLine{Text: "shards 10%", Redraw: true}, true},
		{LogLine{Text: "shards 10%", Redraw: true}, false},
		{LogLine{Text: "shards 20%", Redraw: true}, true},
	}
	for _, l := range lines {
		if got := s.add(l.line); got != l.news {
			t.Errorf("%q: news %v", l.line.Text, got)
		}
	}
	for i := range 2 * diagnosisLines {
		s.add(LogLine{Text: fmt.Sprint("line ", i)})
	}
	kept := s.last()
	if len(kept) != diagnosisLines || kept[0] != "line 200" || kept[diagnosisLines-1] != "line 399" {
		t.Errorf("%d kept, %q to %q", len(kept), kept[0], kept[len(kept)-1])
	}
	for i := range 2 * maxNovel {
		s.add(LogLine{Text: strings.Repeat("x", i%300) + string(rune('a'+i%20))})
	}
	if len(s.novel) > maxNovel {
		t.Errorf("remembers %d lines", len(s.novel))
	}
}

func TestTurns(t *testing.T) {
	r := func(id string, model string, s State, change ...func(*Replica)) Replica {
		out := Replica{Spec: Spec{ID: ReplicaID(id), Model: model, Device: DeviceCUDA}, State: s}
		for _, c := range change {
			c(&out)
		}
		return out
	}
	was := func(r *Replica) { r.ReadyAt = t0 }
	simulated := func(r *Replica) { r.Device = DeviceSimulated }
	broken := func(r *Replica) { r.Diagnosis = permanent }
	tests := []struct {
		name     string
		parallel bool
		all      []Replica
		want     []turn
	}{
		{"first alone", false, []Replica{r("a", "m", Pending), r("b", "m", Pending)}, []turn{{"a", start{}}}},
		{"each model has a first", false, []Replica{r("a", "m", Pending), r("b", "n", Pending)}, []turn{{"a", start{}}, {"b", start{}}}},
		{"first is starting", false, []Replica{r("a", "m", Starting), r("b", "m", Pending)}, nil},
		{"first retries", false, []Replica{r("a", "m", Backoff), r("b", "m", Pending)}, nil},
		{"first is ready", false, []Replica{r("a", "m", Ready, was), r("b", "m", Pending), r("c", "m", Pending)}, []turn{{"b", start{}}, {"c", start{}}}},
		{"first was ready once", false, []Replica{r("a", "m", Suspect, was), r("b", "m", Pending)}, []turn{{"b", start{}}}},
		{"first is parked for good", false, []Replica{r("a", "m", Parked, broken), r("b", "m", Pending), r("c", "m", Pending)},
			[]turn{{"b", sibling{permanent.Cause}}, {"b", start{}}}},
		{"first was stopped", false, []Replica{r("a", "m", Stopped), r("b", "m", Pending)}, []turn{{"b", start{}}}},
		{"parallel", true, []Replica{r("a", "m", Pending), r("b", "m", Pending)}, []turn{{"a", start{}}, {"b", start{}}}},
		{"simulated", false, []Replica{r("a", "m", Pending, simulated), r("b", "m", Pending, simulated)}, []turn{{"a", start{}}, {"b", start{}}}},
	}
	for _, tt := range tests {
		turns := turns{parallel: tt.parallel}
		got := turns.next(tt.all)
		if len(got) != len(tt.want) {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
			continue
		}
		for i := range got {
			if got[i] != tt.want[i] {
				t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
			}
		}
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
			p, err := newProber(server.URL, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer p.close()
			err = p.ask(t.Context(), "m")
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
	p, err := newProber("unix:"+filepath.Join(t.TempDir(), "none"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	if r := p.health(t.Context(), time.Second); !r.refused() || strings.Contains(r.String(), "http://") {
		t.Errorf("%v", r)
	}
}

// The wall clock is set back and forth by an hour while all is well. Durations are taken from the monotonic clock, but
// the router's last byte comes as wall time, and a machine must survive even times without a monotonic part.
func TestClockJumps(t *testing.T) {
	for _, jump := range []time.Duration{time.Hour, -time.Hour} {
		var stall stallTracker
		for i := range 600 {
			now := t0.Add(time.Duration(i) * time.Second)
			lastByte := now
			if i >= 300 {
				lastByte = now.Add(jump)
			}
			if still := stall.observe(Work{Held: 1, LastByte: lastByte}, EngineStats{}, false, now); still > time.Second {
				t.Fatalf("jump of %s: %s without progress at second %d, though bytes came all the time", jump, still, i)
			}
		}

		m := driven(toReady...)
		for _, ev := range []event{slow{}, healthy{}, slow{}, healthy{}} {
			for _, e := range m.step(ev, m.since.Add(jump)) {
				switch e.(type) {
				case stopEffect, killEffect, spawnEffect:
					t.Errorf("jump of %s: %T because of the clock", jump, e)
				}
			}
		}
		if m.state != Ready {
			t.Errorf("jump of %s: %s", jump, m.state)
		}
		m.step(exited{}, m.since.Add(jump))
		m.step(gone{diagnosis: passing}, m.since)
		if wait := m.nextRetry.Sub(m.since); m.state != Backoff || wait < 0 || wait > m.timing.BackoffMax {
			t.Errorf("jump of %s: %s, next start in %s", jump, m.state, wait)
		}
	}
}
