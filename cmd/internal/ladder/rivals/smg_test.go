package rivals

import (
	"testing"
	"time"

	"github.com/lm-warden/warden/router/placement"
)

// smgBed is two replicas behind cache_aware and a clock.
type smgBed struct {
	t   *testing.T
	p   *Fleet
	now time.Time
	ids uint64
}

const smgRoot = 7

func newSMGBed(t *testing.T) *smgBed {
	p, err := New("cache_aware", Info{Shared: map[uint64]int{smgRoot: 400}, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	b := &smgBed{t: t, p: p, now: time.Unix(1000, 0)}
	b.step(placement.Replicas{Replicas: []placement.Replica{{ID: "a", Accepting: true}, {ID: "b", Accepting: true}}})
	return b
}

func (b *smgBed) step(ev placement.Event) []placement.Action { return b.p.Step(ev, b.now) }

// send sends a turn of a conversation and returns its id and where it went.
func (b *smgBed) send(conversation byte, tokens int) (uint64, placement.ReplicaID) {
	b.t.Helper()
	b.ids++
	got := b.step(placement.Arrive{Turn: placement.Turn{
		ID: b.ids, Key: placement.Key{conversation}, Root: smgRoot, PromptTokens: tokens,
	}})
	return b.ids, got[0].(placement.Dispatch).Replica
}

// play sends a turn and ends it.
func (b *smgBed) play(conversation byte, tokens int) placement.ReplicaID {
	b.t.Helper()
	id, at := b.send(conversation, tokens)
	b.step(placement.Finish{TurnID: id, Outcome: placement.Outcome{OutputTokens: 10}})
	return at
}

// scraped lets a scrape see these figures of an engine.
func (b *smgBed) scraped(id placement.ReplicaID, waiting int, kv float64) {
	b.now = b.now.Add(11 * time.Second)
	b.step(placement.Stats{Replica: id, Engine: placement.EngineView{At: b.now, Waiting: waiting, KVUsed: kv}})
}

func otherOf(id placement.ReplicaID) placement.ReplicaID {
	return map[placement.ReplicaID]placement.ReplicaID{"a": "b", "b": "a"}[id]
}

// A shared beginning of more than 0.3 draws new conversations to the one replica
// that has it until it holds clearly more than the mean; a shorter one does not.
func TestCacheAwareHerdsFirstTurns(t *testing.T) {
	for _, tt := range []struct {
		name        string
		tokens, all int // prompt; of the first twelve turns on one replica
	}{{"0.4 shared", 1000, 11}, {"0.2 shared", 2000, 6}} {
		t.Run(tt.name, func(t *testing.T) {
			b := newSMGBed(t)
			_, first := b.send(1, tt.tokens)
			n := 1
			for conversation := byte(2); conversation <= 12; conversation++ {
				if _, at := b.send(conversation, tt.tokens); at == first {
					n++
				}
			}
			if n != tt.all {
				t.Errorf("%d of the first twelve turns went to one replica, want %d", n, tt.all)
			}
		})
	}
}

// An engine that a scrape found over is left out although the conversation is
// there, and the conversation follows.
func TestCacheAwareLeavesOutWhatIsOver(t *testing.T) {
	for _, tt := range []struct {
		name    string
		waiting int
		kv      float64
		moves   bool
	}{
		{"7 waiting", 7, 0, false},
		{"8 waiting", 8, 0, true},
		{"0.79 of the KV cache", 0, 0.79, false},
		{"0.80 of the KV cache", 0, 0.80, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newSMGBed(t)
			home := b.play(1, 1000)
			b.scraped(home, tt.waiting, tt.kv)
			at := b.play(1, 1100)
			if moved := at != home; moved != tt.moves {
				t.Errorf("moved: %v, want %v", moved, tt.moves)
			}
			b.scraped(home, 0, 0)
			if again := b.play(1, 1200); again != at {
				t.Errorf("it went to %s, then to %s", at, again)
			}
		})
	}
}

// With all engines over the fewest in flight decide, and the tree is not told.
func TestCacheAwareWithAllOver(t *testing.T) {
	b := newSMGBed(t)
	home := b.play(1, 1000)
	b.scraped("a", 8, 0)
	b.scraped("b", 0, 0.9)
	id, at := b.send(2, 1000)
	if _, next := b.send(1, 1100); next != otherOf(at) {
		t.Errorf("both went to %s", at)
	}
	b.step(placement.Finish{TurnID: id})
	if got := b.play(3, 1000); got != at {
		t.Errorf("it went to %s, which holds a turn more", got)
	}
	b.scraped("a", 0, 0)
	b.scraped("b", 0, 0)
	if got := b.play(1, 1200); got != home {
		t.Errorf("the conversation went to %s, the tree knows only %s", got, home)
	}
}

// Without holders the expected wait decides: requests that wait, run or were sent
// since the scrape, those that the router knows of if they are more, and how full
// the KV cache is.
func TestCacheAwareRanksByExpectedWait(t *testing.T) {
	b := newSMGBed(t)
	b.scraped("a", 3, 0)
	count := map[placement.ReplicaID]int{}
	for conversation := byte(1); conversation <= 3; conversation++ {
		count[b.play(conversation, 4000)]++
	}
	if count["b"] != 3 {
		t.Errorf("three wait on a, but the turns went %v", count)
	}
	b.scraped("a", 0, 0.6)
	if got := b.play(4, 4000); got != "b" {
		t.Errorf("a turn went to %s, which is fuller", got)
	}
	b.now = b.now.Add(11 * time.Second)
	b.step(placement.Stats{Replica: "a", Engine: placement.EngineView{At: b.now, Running: 1}})
	if got := b.play(5, 4000); got != "b" {
		t.Errorf("a turn went to %s, where one runs", got)
	}
	for conversation := byte(6); conversation <= 8; conversation++ {
		b.send(conversation, 4000)
	}
	held := b.p.f.replicas[0].held
	if other := b.p.f.replicas[1].held; held+other != 3 || other > 2 || held > 2 {
		t.Errorf("%d and %d in flight", held, other)
	}
	b.scraped("a", 0, 0) // a scrape that knows of none of them
	b.scraped("b", 0, 0)
	less := placement.ReplicaID("a")
	if held > 1 {
		less = "b"
	}
	if _, at := b.send(9, 4000); at != less {
		t.Errorf("a turn went to %s, which has more in flight", at)
	}
}
