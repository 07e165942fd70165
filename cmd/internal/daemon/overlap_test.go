package daemon

import (
	"testing"
	"time"

	"github.com/lm-warden/warden/cmd/internal/handover"
	"github.com/lm-warden/warden/supervisor"
)

// What the one before says is counted until it has drained or is gone.
func TestPredecessorTellsWhatItHolds(t *testing.T) {
	at := time.Unix(1000, 0).UTC()
	for name, end := range map[string]func(old *handover.Link) error{
		"drained": func(old *handover.Link) error { return old.Say(handover.Drained) },
		"gone":    func(old *handover.Link) error { old.Close(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			old, file, err := handover.New()
			if err != nil {
				t.Fatal(err)
			}
			defer old.Close()
			link, err := handover.On(file)
			if err != nil {
				t.Fatal(err)
			}
			p := newPredecessor(link, func() {})
			defer p.close()
			if w := p.work("r0"); w != (supervisor.Work{}) {
				t.Errorf("before a word: %+v", w)
			}
			for _, line := range []string{`{"r0":{"held":"many"}}`, "nonsense", ""} { // another version's
				if err := old.Say(handover.Held + " " + line); err != nil {
					t.Fatal(err)
				}
			}
			if err := old.Say("something new"); err != nil {
				t.Fatal(err)
			}
			if err := old.Say(handover.Held + ` {"r0":{"held":3,"last_byte":"1970-01-01T00:16:40Z"}}`); err != nil {
				t.Fatal(err)
			}
			await(t, "what it holds", func() bool { return p.work("r0") == supervisor.Work{Held: 3, LastByte: at} && p.work("r1").Held == 0 })
			select {
			case <-p.drained:
				t.Error("taken for drained")
			default:
			}
			if err := end(old); err != nil {
				t.Fatal(err)
			}
			<-p.drained
			if w := p.work("r0"); w.Held != 0 {
				t.Errorf("after the end: %+v", w)
			}
			old.Close()
			<-p.gone
		})
	}
	var none *predecessor
	if w := none.work("r0"); w.Held != 0 {
		t.Errorf("without one before: %+v", w)
	}
}

func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	limit := time.After(10 * time.Second)
	for !holds() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("%s: not within 10s", what)
		}
	}
}
