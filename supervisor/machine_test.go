package supervisor

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func half() float64 { return 0.5 }

func testMachine() *machine { return newMachine(DefaultTiming(), half, 0, t0) }

// driven returns a machine after some events, a second apart.
func driven(events ...event) *machine {
	m := testMachine()
	for i, ev := range events {
		if ev == (fired{}) {
			ev = fired{m.timer}
		}
		m.step(ev, t0.Add(time.Duration(i)*time.Second))
	}
	return m
}

var (
	info      = ProcessInfo{PID: 7, Generation: 1, StartedAt: t0}
	toReady   = []event{start{}, gate{}, spawned{info}, answers{}, warm{}}
	permanent = Diagnosis{Cause: "bad flag", Permanent: true}
	passing   = Diagnosis{Cause: "code 1"}
	broken    = Diagnosis{Cause: "XID 79"}
)

func after(base []event, more ...event) []event { return append(slices.Clone(base), more...) }

// situations are the ways into each state that the table of doc.go names.
var situations = map[string][]event{
	"pending":     {},
	"waiting_gpu": {start{}},
	"starting":    toReady[:2],
	"warming":     toReady[:4],
	"ready":       toReady,
	"suspect":     after(toReady, slow{}),
	"suspect+":    {adopted{info}},
	"draining":    after(toReady, drain{}),
	"draining*":   after(toReady, restart{time.Minute}),
	"stopping":    after(toReady, exited{}),
	"stopping*":   after(toReady, restart{}),
	"stopping!":   after(toReady, stop{}),
	"draining-":   after(toReady, aside{diagnosis: broken}),
	"stopping-":   after(toReady, aside{diagnosis: broken, gone: true}),
	"stopped":     {stop{}},
	"backoff":     after(toReady, exited{}, gone{diagnosis: passing}),
	"parked":      {start{}, gate{}, unborn{permanent}, fired{}, gate{}, unborn{permanent}},
	"stuck":       after(toReady, exited{}, unkilled{[]int{8}}),
}

// happenings are the events by the names that the table uses; ~ means with time to drain.
var happenings = map[string]event{
	"start": start{}, "retry": retry{}, "sibling": sibling{"bad flag"}, "undrain": undrain{}, "drain": drain{},
	"stop": stop{}, "stop~": stop{time.Minute}, "restart": restart{}, "restart~": restart{time.Minute}, "kill": kill{},
	"aside": aside{broken, true}, "aside~": aside{broken, false}, "held": held{"h"},
	"gate": gate{}, "spawned": spawned{info}, "adopted": adopted{info}, "unborn": unborn{passing},
	"exited": exited{}, "gone": gone{diagnosis: passing}, "unkilled": unkilled{[]int{8}},
	"answers": answers{}, "warm": warm{}, "cold": cold{"c"}, "slow": slow{"s"}, "healthy": healthy{}, "dead": dead{"d"},
	"hung": hung{"h"}, "progress": progress{}, "idle": idle{}, "fired": fired{},
}

func kinds(effects []effect) string {
	var names []string
	for _, e := range effects {
		name, _ := strings.CutPrefix(fmt.Sprintf("%T", e), "supervisor.")
		names = append(names, strings.TrimSuffix(name, "Effect"))
	}
	return strings.Join(names, " ")
}

type row struct{ to, effects string }

// table reads the table out of doc.go.
func table(t *testing.T) map[[2]string]row {
	t.Helper()
	raw, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[[2]string]row{}
	for line := range strings.Lines(string(raw)) {
		line, isTable := strings.CutPrefix(line, "//\t")
		cells := strings.Split(line, "|")
		if !isTable || len(cells) != 4 || strings.HasPrefix(line, "-") {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if cells[0] == "from" {
			continue
		}
		key := [2]string{cells[0], cells[1]}
		if _, twice := rows[key]; twice {
			t.Errorf("doc.go has two rows for %v", key)
		}
		if situations[cells[0]] == nil || happenings[cells[1]] == nil {
			t.Errorf("doc.go: unknown state or event in %v", key)
		}
		rows[key] = row{to: cells[2], effects: cells[3]}
	}
	return rows
}

func TestMachineFollowsItsTable(t *testing.T) {
	rows := table(t)
	for from, path := range situations {
		for name, ev := range happenings {
			m := driven(path...)
			before, ignored := m.state, m.ignored
			if want := State(strings.TrimRight(from, "*!+-")); before != want {
				t.Fatalf("the way to %s leads to %s", from, before)
			}
			if name == "fired" {
				ev = fired{max(m.timer, 1)}
				if m.timer == 0 {
					ev = fired{99}
				}
			}
			effects := m.step(ev, t0.Add(time.Minute))
			want, listed := rows[[2]string{from, name}]
			if !listed {
				want, listed = rows[[2]string{from, strings.TrimSuffix(name, "~")}]
			}
			if !listed && strings.ContainsAny(from, "*!-") && from[0] == 's' {
				continue // stopping*, stopping! and stopping- differ from stopping only where they have rows
			}
			if !listed {
				want = row{to: string(before)}
				if m.ignored == ignored && name != "slow" && name != "healthy" {
					t.Errorf("%s + %s: not in the table but not ignored", from, name)
				}
			}
			if got := (row{string(m.state), kinds(effects)}); got != want {
				t.Errorf("%s + %s: got %+v, the table says %+v", from, name, got, want)
			}
			if listed && m.ignored != ignored {
				t.Errorf("%s + %s: in the table but counted as ignored", from, name)
			}
		}
	}
}

func TestFailuresLeadToBackoffAndThenToParked(t *testing.T) {
	m := driven(start{})
	now := t0
	ceiling := time.Second
	for i := 1; i < failLimit; i++ {
		m.step(gate{}, now)
		m.step(unborn{passing}, now)
		if m.state != Backoff || m.nextRetry.Sub(now) != ceiling/2 {
			t.Fatalf("failure %d: %s, next in %s; want backoff, %s", i, m.state, m.nextRetry.Sub(now), ceiling/2)
		}
		now = m.nextRetry
		m.step(fired{m.timer}, now)
		ceiling *= 2
	}
	m.step(gate{}, now)
	m.step(unborn{passing}, now)
	if m.state != Parked || m.timer != 0 {
		t.Fatalf("after %d failures: %s, timer %d", failLimit, m.state, m.timer)
	}
	if want := "5 failures in 15m; last: code 1"; m.note != want {
		t.Errorf("note %q, want %q", m.note, want)
	}
	m.step(retry{}, now)
	m.step(gate{}, now)
	m.step(unborn{passing}, now)
	if m.state != Backoff {
		t.Errorf("after a retry and one failure: %s, want backoff: the old ones are forgotten", m.state)
	}
}

func TestOldFailuresDoNotPark(t *testing.T) {
	m := driven(start{})
	now := t0
	for range 3 * failLimit {
		m.step(gate{}, now)
		m.step(unborn{passing}, now)
		if m.state != Backoff {
			t.Fatalf("state %s at %s", m.state, now.Sub(t0))
		}
		now = now.Add(4 * time.Minute) // 4 failures in 15 minutes
		m.step(fired{m.timer}, now)
	}
}

func TestLastingReadinessForgives(t *testing.T) {
	for _, stay := range []time.Duration{DefaultTiming().StableAfter - time.Second, DefaultTiming().StableAfter} {
		m := driven(after(toReady, exited{}, gone{diagnosis: passing}, fired{}, gate{}, spawned{info}, answers{}, warm{})...)
		ready := m.since
		if m.state != Ready || m.streak != 1 {
			t.Fatalf("state %s, streak %d", m.state, m.streak)
		}
		// A doubt in between does not start the time anew.
		m.step(slow{}, ready.Add(time.Minute))
		m.step(healthy{}, ready.Add(2*time.Minute))
		if stay >= DefaultTiming().StableAfter {
			m.step(fired{m.timer}, ready.Add(stay))
		}
		m.step(exited{}, ready.Add(stay))
		m.step(gone{diagnosis: passing}, ready.Add(stay))
		want := 2
		if stay >= DefaultTiming().StableAfter {
			want = 1
		}
		if m.streak != want {
			t.Errorf("exit after %s of readiness: streak %d, want %d", stay, m.streak, want)
		}
	}
}

func TestPermanentCauses(t *testing.T) {
	other := Diagnosis{Cause: "gated repository", Permanent: true}
	try := func(d Diagnosis) []event { return []event{gate{}, unborn{d}, fired{}} }
	tests := []struct {
		name   string
		events []event
		want   State
	}{
		{"the same twice", slices.Concat([]event{start{}}, try(permanent), try(permanent)), Parked},
		{"two different ones", slices.Concat([]event{start{}}, try(permanent), try(other)), WaitingGPU},
		{"a passing one between", slices.Concat([]event{start{}}, try(permanent), try(passing), try(permanent)), WaitingGPU},
		{"known from a sibling", slices.Concat([]event{sibling{permanent.Cause}, start{}}, try(permanent)), Parked},
		{"another than the sibling's", slices.Concat([]event{sibling{permanent.Cause}, start{}}, try(other)), WaitingGPU},
		{"after it was ready", after(toReady, exited{}, gone{diagnosis: permanent}, fired{}, gate{}, spawned{info}, answers{}, warm{},
			exited{}, gone{diagnosis: permanent}), Backoff},
	}
	for _, tt := range tests {
		if m := driven(tt.events...); m.state != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, m.state, tt.want)
		}
	}
}

func TestOrderedEndIsNoFailure(t *testing.T) {
	for _, events := range [][]event{
		after(toReady, restart{}, exited{}, gone{diagnosis: passing}),
		after(toReady, restart{time.Minute}, idle{}, exited{}, gone{diagnosis: passing}),
		after(toReady, restart{time.Minute}, exited{}, gone{diagnosis: passing}), // died by itself during the drain
		after(toReady, kill{}, exited{}, gone{diagnosis: passing}),
	} {
		if m := driven(events...); m.state != WaitingGPU || m.streak != 0 || m.diagnosis.Cause != "" {
			t.Errorf("%d events: %s, streak %d, diagnosis %+v", len(events), m.state, m.streak, m.diagnosis)
		}
	}
}

func TestOrdersDuringTheStart(t *testing.T) {
	m := driven(start{}, gate{}, stop{})
	if got := kinds(m.step(spawned{info}, t0)); got != "stop" {
		t.Errorf("a process that comes after the order to stop: %q", got)
	}
	m = driven(start{}, gate{}, kill{})
	if got := kinds(m.step(spawned{info}, t0)); got != "kill" {
		t.Errorf("a process that comes after the order to kill: %q", got)
	}
	m = driven(start{}, gate{}, stop{}, unborn{passing})
	if m.state != Stopped {
		t.Errorf("a start that fails after the order to stop leads to %s", m.state)
	}
	m = driven(stop{}, adopted{info}, exited{}, gone{diagnosis: passing})
	if m.state != Stopped {
		t.Errorf("an engine found after the order to stop leads to %s", m.state)
	}
}

func TestOwnCauseExplainsAnEndThatTheLogDoesNot(t *testing.T) {
	m := driven(after(toReady, hung{"hangs"}, exited{}, gone{how: "code 0"})...)
	if m.diagnosis.Cause != "hangs" || m.state != Backoff {
		t.Errorf("%s, %+v", m.state, m.diagnosis)
	}
	m = driven(after(toReady, exited{}, gone{how: "code 0"})...)
	if m.diagnosis.Cause != "code 0" {
		t.Errorf("an unexplained end: %+v", m.diagnosis)
	}
	m = driven(after(toReady, dead{"core is dead"}, exited{}, gone{diagnosis: Diagnosis{Cause: "ended unexpectedly"}})...)
	if m.diagnosis.Cause != "core is dead" {
		t.Errorf("a guess from the exit hides the cause: %+v", m.diagnosis)
	}
	m = driven(after(toReady, dead{"core is dead"}, exited{}, gone{diagnosis: Diagnosis{Cause: "CUDA out of memory", Line: "torch.OutOfMemoryError"}})...)
	if m.diagnosis.Cause != "CUDA out of memory" {
		t.Errorf("the log's cause is lost: %+v", m.diagnosis)
	}
}

// A drain is an order for the replica, not for its engine: it must survive the engine's end.
func TestDrainedReplicaStaysDrained(t *testing.T) {
	again := []event{gate{}, spawned{info}, answers{}, warm{}}
	crashed := after(toReady, drain{}, exited{}, gone{diagnosis: passing})
	tests := []struct {
		name   string
		events []event
		want   State
	}{
		{"crash", after(after(crashed, fired{}), again...), Draining},
		{"two crashes", after(after(after(after(crashed, fired{}), again...), exited{}, gone{diagnosis: passing}, fired{}), again...), Draining},
		{"hang", after(after(toReady, drain{}, hung{"h"}, exited{}, gone{}, fired{}), again...), Draining},
		{"killed by order", after(after(toReady, drain{}, kill{}, exited{}, gone{}), again...), Draining},
		{"undrained after the new start", after(after(after(crashed, fired{}), again...), undrain{}), Ready},
		{"undrained before the new start", after(after(crashed, undrain{}, fired{}), again...), Ready},
		{"undrained in time", after(after(toReady, drain{}, undrain{}, exited{}, gone{diagnosis: passing}, fired{}), again...), Ready},
		{"restarted by order", after(after(toReady, drain{}, restart{}, exited{}, gone{}), again...), Ready},
		{"restarted by order after the crash", after(after(crashed, restart{}), again...), Ready},
		{"retried", after(after(crashed, retry{}), again...), Ready},
		{"drained for a restart only", after(after(toReady, restart{time.Minute}, exited{}, gone{}), again...), Ready},
	}
	for _, tt := range tests {
		if m := driven(tt.events...); m.state != tt.want {
			t.Errorf("%s: %s (%s), want %s", tt.name, m.state, m.note, tt.want)
		}
	}
}

// Why a GPU was set aside is what is shown, whatever the engine's log says of its own end, and it is no failure.
func TestSetAsideExplainsTheEnd(t *testing.T) {
	for name, events := range map[string][]event{
		"drained":             after(toReady, aside{broken, false}, idle{}, exited{}, gone{diagnosis: passing}),
		"died while draining": after(toReady, aside{broken, false}, exited{}, gone{diagnosis: passing}),
		"killed":              after(toReady, aside{broken, true}, exited{}, gone{diagnosis: passing}),
		"died just before":    after(toReady, exited{}, aside{broken, true}, gone{diagnosis: passing}),
		"while it starts":     {start{}, gate{}, aside{broken, false}, spawned{info}, exited{}, gone{diagnosis: passing}},
		"in back-off":         after(toReady, exited{}, gone{diagnosis: passing}, aside{broken, true}),
		"cannot be killed":    after(toReady, aside{broken, true}, unkilled{[]int{8}}, gone{diagnosis: passing}),
	} {
		m := driven(events...)
		if m.state != Parked || m.diagnosis != broken || m.note != broken.Cause {
			t.Errorf("%s: %s %q %+v", name, m.state, m.note, m.diagnosis)
		}
		if m.streak > 1 || (m.streak == 1 && name != "in back-off") {
			t.Errorf("%s: counted as failure %d", name, m.streak)
		}
	}
}

func TestHeldSaysWhy(t *testing.T) {
	m := driven(start{}, held{"driver mismatch"})
	if m.state != WaitingGPU || m.note != "driver mismatch" {
		t.Errorf("%s %q", m.state, m.note)
	}
	if m.step(held{}, t0); m.note != "" {
		t.Errorf("after the hold: %q", m.note)
	}
}

func TestNobodyAnswersForAStop(t *testing.T) {
	m := driven(after(toReady, stop{})...)
	now := t0
	for range killOrders {
		now = now.Add(time.Minute)
		if got := kinds(m.step(fired{m.timer}, now)); got != "kill arm" {
			t.Fatalf("effects %q", got)
		}
	}
	m.step(fired{m.timer}, now)
	if m.state != Stuck {
		t.Errorf("state %s, want stuck", m.state)
	}
	if m.step(gone{diagnosis: passing}, now); m.state != Stopped {
		t.Errorf("state %s after the processes went, want stopped", m.state)
	}
}

func TestBackoff(t *testing.T) {
	timing := DefaultTiming()
	tests := []struct {
		streak int
		want   time.Duration
	}{{1, time.Second}, {2, 2 * time.Second}, {6, 32 * time.Second}, {7, time.Minute}, {40, time.Minute}, {1000, time.Minute}}
	for _, tt := range tests {
		if got := backoff(timing, tt.streak, 1); got != tt.want {
			t.Errorf("streak %d: at most %s, want %s", tt.streak, got, tt.want)
		}
		if got := backoff(timing, tt.streak, 0); got != 0 {
			t.Errorf("streak %d: at least %s, want 0", tt.streak, got)
		}
	}
}

// FuzzMachine feeds random events, late timers included, and checks what must hold whatever happens.
func FuzzMachine(f *testing.F) {
	names := slices.Sorted(maps.Keys(happenings))
	index := func(events ...string) []byte {
		var out []byte
		for _, e := range events {
			out = append(out, byte(slices.Index(names, e)))
		}
		return out
	}
	f.Add(index("start", "gate", "spawned", "answers", "warm", "exited", "gone", "fired", "gate"))
	f.Add(index("adopted", "warm", "hung", "unkilled", "retry", "gone"))
	f.Add(index("start", "gate", "kill", "spawned", "stop", "fired", "fired", "fired", "fired"))
	f.Fuzz(func(t *testing.T, script []byte) {
		m := testMachine()
		processes, now := 0, t0
		for _, b := range script {
			name := names[int(b)%len(names)]
			ev := happenings[name]
			if name == "fired" {
				ev = fired{m.timer}
			}
			// A launcher tells of a process only while there is one, and finds one only while there is none.
			switch name {
			case "spawned", "exited", "gone", "unkilled", "unborn":
				if processes == 0 {
					continue
				}
			case "adopted":
				if processes == 1 {
					continue
				}
			}
			now = now.Add(time.Duration(b) * time.Second)
			wasLive := m.live
			for _, e := range m.step(ev, now) {
				if _, isSpawn := e.(spawnEffect); isSpawn {
					processes++
				}
			}
			if name == "adopted" && m.live && !wasLive {
				processes++
			}
			if (name == "gone" || name == "unborn") && wasLive && !m.live {
				processes--
			}
			check(t, m, processes, name)
		}
	})
}

func check(t *testing.T, m *machine, processes int, last string) {
	t.Helper()
	if processes < 0 || processes > 1 || m.live != (processes == 1) {
		t.Fatalf("after %s in %s: %d processes, live %v", last, m.state, processes, m.live)
	}
	if m.in(Stopped, Parked, Pending, WaitingGPU) && (m.timer != 0 || m.live) {
		t.Fatalf("after %s: %s with timer %d, live %v", last, m.state, m.timer, m.live)
	}
	if m.in(Backoff) && (m.timer == 0 || m.live || m.nextRetry.IsZero()) {
		t.Fatalf("after %s: backoff with timer %d, live %v, next retry %v", last, m.timer, m.live, m.nextRetry)
	}
	if m.in(Starting, Warming, Stopping) && (m.timer == 0 || !m.live) {
		t.Fatalf("after %s: %s with timer %d, live %v: nothing would end it", last, m.state, m.timer, m.live)
	}
	if m.in(Ready, Suspect, Draining, Stuck) && !m.live {
		t.Fatalf("after %s: %s without a process", last, m.state)
	}
	if m.in(Ready) && !m.warmed {
		t.Fatalf("after %s: ready without an answered request", last)
	}
	if m.drained && m.in(Ready) {
		t.Fatalf("after %s: ready although it was drained by order", last)
	}
	if m.in(Draining) && m.then != afterNothing && m.timer == 0 {
		t.Fatalf("after %s: drains for an order without a time limit", last)
	}
}
