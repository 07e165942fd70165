package state

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/lm-warden/warden/supervisor/control"
	"github.com/lm-warden/warden/supervisor/events"
	"github.com/lm-warden/warden/tui/cell"
)

// t0 is when these tests happen.
var t0 = time.Date(2026, 11, 30, 21, 14, 10, 0, time.UTC)

func TestDaemonThatNeverAnswered(t *testing.T) {
	s := New(Top, false, nil, t0)
	var i Intent
	s, i = Reduce(s, Ticked{At: t0.Add(59 * time.Second)})
	if i.Do != Nothing {
		t.Errorf("%+v", i)
	}
	if _, i = Reduce(s, Ticked{At: t0.Add(time.Minute)}); i.Do != GiveUp {
		t.Errorf("%+v", i)
	}
}

func TestEventsAreToldOnceAndBounded(t *testing.T) {
	s := New(Top, false, time.UTC, t0)
	tell := func(m control.Message) { s, _ = Reduce(s, Told{Message: m, At: t0}) }
	event := func(seq int) events.Event {
		return events.Event{Seq: uint64(seq), At: t0.Add(time.Duration(seq) * time.Millisecond), Text: fmt.Sprint(seq)}
	}
	for i := 1; i <= keptEvents+10; i++ {
		e := event(i)
		tell(control.Message{Event: &e})
		tell(control.Message{Event: &e})
	}
	tell(control.Message{Recent: []events.Event{event(keptEvents), event(keptEvents + 10), event(keptEvents + 11)}})
	got := s.live.Events
	if len(got) != keptEvents || got[0].Seq != 12 || got[len(got)-1].Seq != keptEvents+11 {
		t.Errorf("%d events, %d to %d", len(got), got[0].Seq, got[len(got)-1].Seq)
	}
	restarted := events.Event{Seq: 1, At: t0.Add(time.Hour), Text: "of a new daemon"}
	tell(control.Message{Recent: []events.Event{restarted}})
	if last := s.live.Events[keptEvents-1]; last.Text != restarted.Text {
		t.Errorf("the new daemon's first event is missing: %+v", last)
	}
}

func TestHistory(t *testing.T) {
	var h History
	for i := range 200 {
		st := control.Status{Now: t0.Add(time.Duration(i) * time.Second), Replicas: []control.Replica{{ID: "r0", Held: i}}}
		if i >= 150 && i < 160 {
			st.Replicas = nil // it was not there
		}
		h = h.add(st)
		h = h.add(st) // the same moment twice is one
	}
	if len(h) != 61 {
		t.Errorf("%d samples, want those of 60 s", len(h))
	}
	end := t0.Add(199 * time.Second)
	held := func(p Point) float64 { return p.Held }
	got := h.Series("r0", end, 12, true, held)
	if got[11] != 199 || got[0] <= 139 || got[0] > 145 {
		t.Errorf("ends %v to %v", got[0], got[11])
	}
	if !strings.Contains(cell.Spark(got, 199, true), " ") {
		t.Errorf("ten seconds without the replica are a gap: %v", got)
	}
	peak := h.Series("r0", end, 60, true, held)
	mean := h.Series("r0", end, 12, false, held)
	if peak[59] != 199 || mean[10] >= got[10] {
		t.Errorf("peak %v, mean %v against %v", peak[59], mean[10], got[10])
	}
	if all := h.Series("", end, 12, true, func(p Point) float64 { return p.KV }); all[5] == all[5] {
		t.Error("KV of nobody is unknown, not zero")
	}
}

// TestCellsDoNotFlicker: as time goes on, a sparkline moves by whole cells.
func TestCellsDoNotFlicker(t *testing.T) {
	var h History
	for i := range 61 {
		h = h.add(control.Status{Now: t0.Add(time.Duration(i) * time.Second), Replicas: []control.Replica{{ID: "r0", Held: (i * 7) % 13}}})
	}
	draw := func(after time.Duration) []float64 {
		return h.Series("r0", t0.Add(time.Minute+after), 20, true, func(p Point) float64 { return p.Held })
	}
	a, b := draw(0), draw(3*time.Second)
	if diff := cmp.Diff(a[1:19], b[:18]); diff != "" {
		t.Errorf("one cell later: %s", diff)
	}
}

func TestKeysAreDeclaredOnce(t *testing.T) {
	for sc := MainScreen; sc <= HelpScreen; sc++ {
		seen := map[string]string{}
		s := State{Screen: sc}
		for _, b := range bindings {
			if b = b.on(s); !b.Enabled() {
				continue
			}
			for _, k := range b.Binding.Keys() {
				if other, twice := seen[k]; twice {
					t.Errorf("screen %d: key %q is both %q and %q", sc, k, other, b.Help().Desc)
				}
				seen[k] = b.Help().Desc
			}
		}
	}
	if n := len(Keys()); n < 15 {
		t.Errorf("%d keys are described", n)
	}
}

func TestWaits(t *testing.T) {
	var h History
	for i, waiting := range []int{1, 0, 1, 1, 2, 1, 1, 3} {
		h = h.add(control.Status{Now: t0.Add(time.Duration(i) * time.Second), Replicas: []control.Replica{{ID: "r0", Engine: &control.Engine{Waiting: waiting}}}})
		if got, want := h.Waits("r0"), i == 7; got != want {
			t.Errorf("after %d s: %t", i, got)
		}
	}
	if h.Waits("r1") || History(nil).Waits("r0") {
		t.Error("nothing waits where nothing is known")
	}
}
