package machine

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lm-warden/warden/supervisor"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func half() float64 { return 0.5 }

func testMachine() *Machine { return New(Options{Jitter: half}, 0, t0) }

// driven returns a machine after some events, a second apart.
func driven(events ...Event) *Machine {
	m := testMachine()
	for i, ev := range events {
		if ev == (Fired{}) {
			ev = Fired{m.timer}
		}
		m.step(ev, t0.Add(time.Duration(i)*time.Second))
	}
	return m
}

var (
	info      = supervisor.ProcessInfo{PID: 7, Generation: 1, StartedAt: t0}
	toReady   = []Event{Start{}, Gate{}, Spawned{info}, Answers{}, Warm{}}
	permanent = supervisor.Diagnosis{Cause: "bad flag", Permanent: true}
	passing   = supervisor.Diagnosis{Cause: "code 1"}
	broken    = supervisor.Diagnosis{Cause: "XID 79"}
)

func after(base []Event, more ...Event) []Event { return append(slices.Clone(base), more...) }

// situations are the ways into each state that the table of doc.go names.
var situations = map[string][]Event{
	"pending":     {},
	"waiting_gpu": {Start{}},
	"starting":    toReady[:2],
	"warming":     toReady[:4],
	"ready":       toReady,
	"suspect":     after(toReady, Slow{}),
	"suspect+":    {Adopted{info}},
	"draining":    after(toReady, Drain{}),
	"draining*":   after(toReady, Restart{time.Minute}),
	"stopping":    after(toReady, Exited{}),
	"stopping*":   after(toReady, Restart{}),
	"stopping!":   after(toReady, Stop{}),
	"draining-":   after(toReady, Aside{Diagnosis: broken}),
	"stopping-":   after(toReady, Aside{Diagnosis: broken, Gone: true}),
	"stopped":     {Stop{}},
	"backoff":     after(toReady, Exited{}, Gone{Diagnosis: passing}),
	"parked":      {Start{}, Gate{}, Unborn{permanent}, Fired{}, Gate{}, Unborn{permanent}},
	"stuck":       after(toReady, Exited{}, Unkilled{[]int{8}}),
}

// happenings are the events by the names that the table uses; ~ means with time to drain.
var happenings = map[string]Event{
	"start": Start{}, "retry": Retry{}, "sibling": Sibling{"bad flag"}, "undrain": Undrain{}, "drain": Drain{},
	"stop": Stop{}, "stop~": Stop{time.Minute}, "restart": Restart{}, "restart~": Restart{time.Minute}, "kill": Kill{},
	"aside": Aside{broken, true}, "aside~": Aside{broken, false}, "held": Held{"h"},
	"gate": Gate{}, "spawned": Spawned{info}, "adopted": Adopted{info}, "unborn": Unborn{passing},
	"exited": Exited{}, "gone": Gone{Diagnosis: passing}, "unkilled": Unkilled{[]int{8}},
	"answers": Answers{}, "warm": Warm{}, "cold": Cold{"c"}, "slow": Slow{"s"}, "healthy": Healthy{}, "dead": Dead{"d"},
	"hung": Hung{"h"}, "progress": Progress{}, "idle": Idle{}, "fired": Fired{},
}

func kinds(effects []Effect) string {
	var names []string
	for _, e := range effects {
		name, _ := strings.CutPrefix(fmt.Sprintf("%T", e), "machine.")
		names = append(names, strings.ToLower(strings.TrimSuffix(name, "Effect")))
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
			before := m.state
			if want := supervisor.State(strings.TrimRight(from, "*!+-")); before != want {
				t.Fatalf("the way to %s leads to %s", from, before)
			}
			if name == "fired" {
				ev = Fired{max(m.timer, 1)}
				if m.timer == 0 {
					ev = Fired{99}
				}
			}
			effects, used := m.Step(ev, t0.Add(time.Minute))
			want, listed := rows[[2]string{from, name}]
			if !listed {
				want, listed = rows[[2]string{from, strings.TrimSuffix(name, "~")}]
			}
			if !listed && strings.ContainsAny(from, "*!-") && from[0] == 's' {
				continue // stopping*, stopping! and stopping- differ from stopping only where they have rows
			}
			if !listed {
				want = row{to: string(before)}
				if used && name != "slow" && name != "healthy" {
					t.Errorf("%s + %s: not in the table but not ignored", from, name)
				}
			}
			if got := (row{string(m.state), kinds(effects)}); got != want {
				t.Errorf("%s + %s: got %+v, the table says %+v", from, name, got, want)
			}
			if listed && !used {
				t.Errorf("%s + %s: in the table but counted as ignored", from, name)
			}
		}
	}
}

func TestFailuresLeadToBackoffAndThenToParked(t *testing.T) {
	m := driven(Start{})
	now := t0
	ceiling := time.Second
	for i := 1; i < FailLimit; i++ {
		m.step(Gate{}, now)
		m.step(Unborn{passing}, now)
		if m.state != supervisor.Backoff || m.nextRetry.Sub(now) != ceiling/2 {
			t.Fatalf("failure %d: %s, next in %s; want backoff, %s", i, m.state, m.nextRetry.Sub(now), ceiling/2)
		}
		now = m.nextRetry
		m.step(Fired{m.timer}, now)
		ceiling *= 2
	}
	m.step(Gate{}, now)
	m.step(Unborn{passing}, now)
	if m.state != supervisor.Parked || m.timer != 0 {
		t.Fatalf("after %d failures: %s, timer %d", FailLimit, m.state, m.timer)
	}
	if want := "5 failures in 15m; last: code 1"; m.note != want {
		t.Errorf("note %q, want %q", m.note, want)
	}
	m.step(Retry{}, now)
	m.step(Gate{}, now)
	m.step(Unborn{passing}, now)
	if m.state != supervisor.Backoff {
		t.Errorf("after a retry and one failure: %s, want backoff: the old ones are forgotten", m.state)
	}
}

func TestOldFailuresDoNotPark(t *testing.T) {
	m := driven(Start{})
	now := t0
	for range 3 * FailLimit {
		m.step(Gate{}, now)
		m.step(Unborn{passing}, now)
		if m.state != supervisor.Backoff {
			t.Fatalf("state %s at %s", m.state, now.Sub(t0))
		}
		now = now.Add(4 * time.Minute) // 4 failures in 15 minutes
		m.step(Fired{m.timer}, now)
	}
}

func TestLastingReadinessForgives(t *testing.T) {
	for _, stay := range []time.Duration{DefaultTiming().StableAfter - time.Second, DefaultTiming().StableAfter} {
		m := driven(after(toReady, Exited{}, Gone{Diagnosis: passing}, Fired{}, Gate{}, Spawned{info}, Answers{}, Warm{})...)
		ready := m.since
		if m.state != supervisor.Ready || m.streak != 1 {
			t.Fatalf("state %s, streak %d", m.state, m.streak)
		}
		// A doubt in between does not start the time anew.
		m.step(Slow{}, ready.Add(time.Minute))
		m.step(Healthy{}, ready.Add(2*time.Minute))
		if stay >= DefaultTiming().StableAfter {
			m.step(Fired{m.timer}, ready.Add(stay))
		}
		m.step(Exited{}, ready.Add(stay))
		m.step(Gone{Diagnosis: passing}, ready.Add(stay))
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
	other := supervisor.Diagnosis{Cause: "gated repository", Permanent: true}
	try := func(d supervisor.Diagnosis) []Event { return []Event{Gate{}, Unborn{d}, Fired{}} }
	tests := []struct {
		name   string
		events []Event
		want   supervisor.State
	}{
		{"the same twice", slices.Concat([]Event{Start{}}, try(permanent), try(permanent)), supervisor.Parked},
		{"two different ones", slices.Concat([]Event{Start{}}, try(permanent), try(other)), supervisor.WaitingGPU},
		{"a passing one between", slices.Concat([]Event{Start{}}, try(permanent), try(passing), try(permanent)), supervisor.WaitingGPU},
		{"known from a sibling", slices.Concat([]Event{Sibling{permanent.Cause}, Start{}}, try(permanent)), supervisor.Parked},
		{"another than the sibling's", slices.Concat([]Event{Sibling{permanent.Cause}, Start{}}, try(other)), supervisor.WaitingGPU},
		{"after it was ready", after(toReady, Exited{}, Gone{Diagnosis: permanent}, Fired{}, Gate{}, Spawned{info}, Answers{}, Warm{},
			Exited{}, Gone{Diagnosis: permanent}), supervisor.Backoff},
	}
	for _, tt := range tests {
		if m := driven(tt.events...); m.state != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, m.state, tt.want)
		}
	}
}

func TestOrderedEndIsNoFailure(t *testing.T) {
	for _, events := range [][]Event{
		after(toReady, Restart{}, Exited{}, Gone{Diagnosis: passing}),
		after(toReady, Restart{time.Minute}, Idle{}, Exited{}, Gone{Diagnosis: passing}),
		after(toReady, Restart{time.Minute}, Exited{}, Gone{Diagnosis: passing}), // died by itself during the drain
		after(toReady, Kill{}, Exited{}, Gone{Diagnosis: passing}),
	} {
		if m := driven(events...); m.state != supervisor.WaitingGPU || m.streak != 0 || m.diagnosis.Cause != "" {
			t.Errorf("%d events: %s, streak %d, diagnosis %+v", len(events), m.state, m.streak, m.diagnosis)
		}
	}
}

func TestOrdersDuringTheStart(t *testing.T) {
	m := driven(Start{}, Gate{}, Stop{})
	if got := kinds(m.step(Spawned{info}, t0)); got != "stop" {
		t.Errorf("a process that comes after the order to stop: %q", got)
	}
	m = driven(Start{}, Gate{}, Kill{})
	if got := kinds(m.step(Spawned{info}, t0)); got != "kill" {
		t.Errorf("a process that comes after the order to kill: %q", got)
	}
	m = driven(Start{}, Gate{}, Stop{}, Unborn{passing})
	if m.state != supervisor.Stopped {
		t.Errorf("a start that fails after the order to stop leads to %s", m.state)
	}
	m = driven(Stop{}, Adopted{info}, Exited{}, Gone{Diagnosis: passing})
	if m.state != supervisor.Stopped {
		t.Errorf("an engine found after the order to stop leads to %s", m.state)
	}
}

func TestOwnCauseExplainsAnEndThatTheLogDoesNot(t *testing.T) {
	m := driven(after(toReady, Hung{"hangs"}, Exited{}, Gone{How: "code 0"})...)
	if m.diagnosis.Cause != "hangs" || m.state != supervisor.Backoff {
		t.Errorf("%s, %+v", m.state, m.diagnosis)
	}
	m = driven(after(toReady, Exited{}, Gone{How: "code 0"})...)
	if m.diagnosis.Cause != "code 0" {
		t.Errorf("an unexplained end: %+v", m.diagnosis)
	}
	m = driven(after(toReady, Dead{"core is dead"}, Exited{}, Gone{Diagnosis: supervisor.Diagnosis{Cause: "ended unexpectedly"}})...)
	if m.diagnosis.Cause != "core is dead" {
		t.Errorf("a guess from the exit hides the cause: %+v", m.diagnosis)
	}
	m = driven(after(toReady, Dead{"core is dead"}, Exited{}, Gone{Diagnosis: supervisor.Diagnosis{Cause: "CUDA out of memory", Line: "torch.OutOfMemoryError"}})...)
	if m.diagnosis.Cause != "CUDA out of memory" {
		t.Errorf("the log's cause is lost: %+v", m.diagnosis)
	}
}

// A drain is an order for the replica, not for its engine: it must survive the engine's end.
func TestDrainedReplicaStaysDrained(t *testing.T) {
	again := []Event{Gate{}, Spawned{info}, Answers{}, Warm{}}
	crashed := after(toReady, Drain{}, Exited{}, Gone{Diagnosis: passing})
	tests := []struct {
		name   string
		events []Event
		want   supervisor.State
	}{
		{"crash", after(after(crashed, Fired{}), again...), supervisor.Draining},
		{"two crashes", after(after(after(after(crashed, Fired{}), again...), Exited{}, Gone{Diagnosis: passing}, Fired{}), again...), supervisor.Draining},
		{"hang", after(after(toReady, Drain{}, Hung{"h"}, Exited{}, Gone{}, Fired{}), again...), supervisor.Draining},
		{"killed by order", after(after(toReady, Drain{}, Kill{}, Exited{}, Gone{}), again...), supervisor.Draining},
		{"undrained after the new start", after(after(after(crashed, Fired{}), again...), Undrain{}), supervisor.Ready},
		{"undrained before the new start", after(after(crashed, Undrain{}, Fired{}), again...), supervisor.Ready},
		{"undrained in time", after(after(toReady, Drain{}, Undrain{}, Exited{}, Gone{Diagnosis: passing}, Fired{}), again...), supervisor.Ready},
		{"restarted by order", after(after(toReady, Drain{}, Restart{}, Exited{}, Gone{}), again...), supervisor.Ready},
		{"restarted by order after the crash", after(after(crashed, Restart{}), again...), supervisor.Ready},
		{"retried", after(after(crashed, Retry{}), again...), supervisor.Ready},
		{"drained for a restart only", after(after(toReady, Restart{time.Minute}, Exited{}, Gone{}), again...), supervisor.Ready},
	}
	for _, tt := range tests {
		if m := driven(tt.events...); m.state != tt.want {
			t.Errorf("%s: %s (%s), want %s", tt.name, m.state, m.note, tt.want)
		}
	}
}

// Why a GPU was set aside is what is shown, whatever the engine's log says of its own end, and it is no failure.
func TestSetAsideExplainsTheEnd(t *testing.T) {
	for name, events := range map[string][]Event{
		"drained":             after(toReady, Aside{broken, false}, Idle{}, Exited{}, Gone{Diagnosis: passing}),
		"died while draining": after(toReady, Aside{broken, false}, Exited{}, Gone{Diagnosis: passing}),
		"killed":              after(toReady, Aside{broken, true}, Exited{}, Gone{Diagnosis: passing}),
		"died just before":    after(toReady, Exited{}, Aside{broken, true}, Gone{Diagnosis: passing}),
		"while it starts":     {Start{}, Gate{}, Aside{broken, false}, Spawned{info}, Exited{}, Gone{Diagnosis: passing}},
		"in back-off":         after(toReady, Exited{}, Gone{Diagnosis: passing}, Aside{broken, true}),
		"cannot be killed":    after(toReady, Aside{broken, true}, Unkilled{[]int{8}}, Gone{Diagnosis: passing}),
	} {
		m := driven(events...)
		if m.state != supervisor.Parked || m.diagnosis != broken || m.note != broken.Cause {
			t.Errorf("%s: %s %q %+v", name, m.state, m.note, m.diagnosis)
		}
		if m.streak > 1 || (m.streak == 1 && name != "in back-off") {
			t.Errorf("%s: counted as failure %d", name, m.streak)
		}
	}
}

func TestHeldSaysWhy(t *testing.T) {
	m := driven(Start{}, Held{"driver mismatch"})
	if m.state != supervisor.WaitingGPU || m.note != "driver mismatch" {
		t.Errorf("%s %q", m.state, m.note)
	}
	if m.step(Held{}, t0); m.note != "" {
		t.Errorf("after the hold: %q", m.note)
	}
}

func TestNobodyAnswersForAStop(t *testing.T) {
	m := driven(after(toReady, Stop{})...)
	now := t0
	for range killOrders {
		now = now.Add(time.Minute)
		if got := kinds(m.step(Fired{m.timer}, now)); got != "kill arm" {
			t.Fatalf("effects %q", got)
		}
	}
	m.step(Fired{m.timer}, now)
	if m.state != supervisor.Stuck {
		t.Errorf("state %s, want stuck", m.state)
	}
	if m.step(Gone{Diagnosis: passing}, now); m.state != supervisor.Stopped {
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
				ev = Fired{m.timer}
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
				if _, isSpawn := e.(SpawnEffect); isSpawn {
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

func check(t *testing.T, m *Machine, processes int, last string) {
	t.Helper()
	if processes < 0 || processes > 1 || m.live != (processes == 1) {
		t.Fatalf("after %s in %s: %d processes, live %v", last, m.state, processes, m.live)
	}
	if m.In(supervisor.Stopped, supervisor.Parked, supervisor.Pending, supervisor.WaitingGPU) && (m.timer != 0 || m.live) {
		t.Fatalf("after %s: %s with timer %d, live %v", last, m.state, m.timer, m.live)
	}
	if m.In(supervisor.Backoff) && (m.timer == 0 || m.live || m.nextRetry.IsZero()) {
		t.Fatalf("after %s: backoff with timer %d, live %v, next retry %v", last, m.timer, m.live, m.nextRetry)
	}
	if m.In(supervisor.Starting, supervisor.Warming, supervisor.Stopping) && (m.timer == 0 || !m.live) {
		t.Fatalf("after %s: %s with timer %d, live %v: nothing would end it", last, m.state, m.timer, m.live)
	}
	if m.In(supervisor.Ready, supervisor.Suspect, supervisor.Draining, supervisor.Stuck) && !m.live {
		t.Fatalf("after %s: %s without a process", last, m.state)
	}
	if m.In(supervisor.Ready) && !m.warmed {
		t.Fatalf("after %s: ready without an answered request", last)
	}
	if m.drained && m.In(supervisor.Ready) {
		t.Fatalf("after %s: ready although it was drained by order", last)
	}
	if m.In(supervisor.Draining) && m.then != afterNothing && m.timer == 0 {
		t.Fatalf("after %s: drains for an order without a time limit", last)
	}
}
