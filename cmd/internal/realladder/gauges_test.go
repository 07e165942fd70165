package realladder

import (
	"slices"
	"testing"
	"time"

	"github.com/lm-warden/warden/router/placement"
)

// seer is a policy that sends everything to "a" and remembers what it was shown.
type seer struct{ seen []placement.Stats }

func (s *seer) Step(ev placement.Event, _ time.Time) []placement.Action {
	switch e := ev.(type) {
	case placement.Arrive:
		return []placement.Action{placement.Dispatch{TurnID: e.Turn.ID, Replica: "a"}}
	case placement.Stats:
		s.seen = append(s.seen, e)
	}
	return nil
}

func (s *seer) last() placement.EngineView { return s.seen[len(s.seen)-1].Engine }

// What a step computes is not in the gauges before it has ended.
func TestGaugesLagBehindTheStep(t *testing.T) {
	p := &seer{}
	g := newGauges(p, 100, 0)
	now := time.Unix(0, 0)
	g.Step(placement.Replicas{Replicas: []placement.Replica{{ID: "a", KVCapacityTokens: 1000}}}, now)
	for id, tokens := range map[uint64]int{1: 300, 2: 500, 3: 400} {
		g.Step(placement.Arrive{Turn: placement.Turn{ID: id, PromptTokens: tokens}}, now)
	}
	g.engine["a"].turns = []uint64{1, 2, 3}
	g.Step(placement.FirstByte{TurnID: 1}, now)
	// 1 has its first token, 2 is being computed, 3 waits.
	g.Step(placement.Stats{Replica: "a", Engine: placement.EngineView{Running: 2, Waiting: 1, KVUsed: 0.7}}, now)
	if v := p.last(); v.Running != 1 || v.Waiting != 1 || v.KVUsed < 0.299 || v.KVUsed > 0.301 {
		t.Errorf("while a prompt of 500 tokens, 100 of them shared, is computed: %+v", v)
	}
	g.Step(placement.FirstByte{TurnID: 2}, now)
	g.Step(placement.Finish{TurnID: 1}, now)
	g.Step(placement.Stats{Replica: "a", Engine: placement.EngineView{Running: 1, Waiting: 1, KVUsed: 0.5}}, now)
	if v := p.last(); v.Running != 1 || v.KVUsed != 0.5 {
		t.Errorf("between two prompts: %+v", v)
	}
}

// A router that scrapes every 10 s sees all engines at one moment, then nothing.
func TestScrapesAreOfAllEnginesAtOnce(t *testing.T) {
	p := &seer{}
	g := newGauges(p, 0, scrapes("cache_aware"))
	begin := time.Unix(0, 0)
	g.Step(placement.Replicas{Replicas: []placement.Replica{{ID: "a"}, {ID: "b"}}}, begin)
	var seen []time.Duration
	for at := time.Duration(0); at < 25*time.Second; at += 100 * time.Millisecond {
		before := len(p.seen)
		g.Step(placement.Stats{Replica: "a"}, begin.Add(at))
		g.Step(placement.Stats{Replica: "b"}, begin.Add(at))
		if got := len(p.seen) - before; got == 2 {
			seen = append(seen, at)
		} else if got != 0 {
			t.Errorf("%d engines at %v", got, at)
		}
	}
	if !slices.Equal(seen, []time.Duration{0, 10 * time.Second, 20 * time.Second}) {
		t.Errorf("scraped at %v", seen)
	}
}
