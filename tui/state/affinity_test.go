package state

import (
	"errors"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/lm-warden/warden/supervisor/control"
)

// Each press means the opposite of what was last ordered, not of what is still on the screen.
func TestAffinityFollowsWhatWasOrdered(t *testing.T) {
	s := New(Top, false, nil, t0)
	at := t0
	var ordered []Intent
	press := func() {
		var i Intent
		s, i = Reduce(s, Pressed{tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune{'a'}}})
		ordered = append(ordered, i)
	}
	status := func(on bool, age time.Duration) {
		at = at.Add(time.Second)
		s, _ = Reduce(s, Told{At: at, Message: control.Message{Status: &control.Status{
			Now: at.Add(-age), Models: []control.Model{{Alias: "m", Affinity: on}}, Replicas: []control.Replica{{ID: "r0", Model: "m"}},
		}}})
	}
	outcome := func(of Intent, err error) {
		at = at.Add(time.Millisecond)
		s, _ = Reduce(s, Done{Of: of, Err: err, At: at})
	}
	on, off := Intent{AffinityOn, "m"}, Intent{AffinityOff, "m"}
	steps := []struct {
		name string
		do   func()
		want Intent
	}{
		{"first", func() { status(true, 0) }, off},
		{"again, without an outcome", func() {}, on},
		{"one outcome, a status from before", func() { outcome(off, nil); status(true, time.Minute) }, off},
		{"all outcomes, no status yet", func() { outcome(on, nil); outcome(off, nil) }, on},
		{"a status, while an order is out", func() { status(false, 0) }, off},
		{"the status after them tells something else", func() { outcome(on, nil); outcome(off, nil); status(true, 0) }, off},
		{"refused", func() { outcome(off, errors.New("no")) }, off},
	}
	for i, st := range steps {
		st.do()
		press()
		if ordered[i] != st.want {
			t.Errorf("%s: %+v, want %+v", st.name, ordered[i], st.want)
		}
	}
}
