package state

import (
	"testing"
	"time"

	"github.com/lm-warden/warden/supervisor/control"
	"github.com/lm-warden/warden/supervisor/events"
)

func TestAStateChangeShowsBeforeTheNextStatus(t *testing.T) {
	now := time.Unix(1_000_000, 0).UTC()
	status := control.Status{Now: now, Replicas: []control.Replica{{ID: "r0", State: control.StateReady}, {ID: "r1", State: control.StateReady}}}
	s := New(Top, false, time.UTC, now)
	s, _ = Reduce(s, Told{Message: control.Message{Status: &status}, At: now})
	change := func(kind string, at time.Time) events.Event {
		return events.Event{Seq: 1, At: at, Kind: kind, Replica: "r1", Fields: map[string]string{"from": "ready", "to": "stopping", "note": "engine\x1b[31m exited"}}
	}
	for name, tc := range map[string]struct {
		event events.Event
		want  string
	}{
		"a change":              {change(events.KindState, now.Add(time.Millisecond)), control.StateStopping},
		"older than the status": {change(events.KindState, now.Add(-time.Millisecond)), control.StateReady},
		"another kind":          {change(events.KindExited, now.Add(time.Millisecond)), control.StateReady},
	} {
		t.Run(name, func(t *testing.T) {
			got, _ := Reduce(s, Told{Message: control.Message{Event: &tc.event}, At: now.Add(time.Second)})
			r := got.live.Status.Replicas
			if r[1].State != tc.want || r[0].State != control.StateReady {
				t.Errorf("states %s, %s; want ready, %s", r[0].State, r[1].State, tc.want)
			}
			if tc.want == control.StateStopping && r[1].Note != "engine exited" {
				t.Errorf("note %q", r[1].Note)
			}
			if status.Replicas[1].State != control.StateReady {
				t.Error("the shared status was changed")
			}
		})
	}
}
