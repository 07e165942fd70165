package rivals

import (
	"cmp"
	"slices"
	"time"

	"github.com/lm-warden/warden/router/placement"
)

// Fleet runs a rule as a policy.
type Fleet struct {
	f       fleet
	rule    rule
	waiting []placement.Turn // while nothing accepts
	turns   map[uint64]*held
}

type fleet struct {
	info     Info
	replicas []*replica // sorted by id
	open     []*replica // those that accept the turn in question
	sessions map[placement.Key]*replica
	total    int // held turns
}

type replica struct {
	placement.Replica
	index   int
	held    int
	prefill int // uncached prompt tokens of turns before their first byte
	decode  int // tokens of held turns
	stats   placement.EngineView
	// sent is how many tokens of a conversation were sent here last, and when.
	sent map[placement.Key]sent
	// roots that were sent here.
	roots map[uint64]bool
	// residents are conversations whose latest home is here.
	residents int
}

type sent struct {
	tokens int
	at     time.Time
}

type held struct {
	turn     placement.Turn
	replica  *replica
	uncached int
	first    bool
}

func newFleet(r rule, info Info) *Fleet {
	return &Fleet{rule: r, turns: map[uint64]*held{}, f: fleet{info: info, sessions: map[placement.Key]*replica{}}}
}

// matched is how much of t's prompt r has been sent before, in tokens.
func (f *fleet) matched(t *placement.Turn, r *replica) int {
	n := 0
	if r.roots[t.Root] {
		n = f.info.Shared[t.Root]
	}
	return min(max(n, r.sent[t.Key].tokens), t.PromptTokens)
}

// least is the first of a set with the smallest value of by.
func least[T cmp.Ordered](set []*replica, by func(*replica) T) *replica {
	return slices.MinFunc(set, func(a, b *replica) int { return cmp.Compare(by(a), by(b)) })
}

func inFlight(r *replica) int { return r.held }

// Step makes Fleet a policy.
func (p *Fleet) Step(ev placement.Event, now time.Time) []placement.Action {
	switch e := ev.(type) {
	case placement.Arrive:
		return p.place(e.Turn, now, nil)
	case placement.Retry:
		h := p.end(e.TurnID)
		return p.place(h.turn, now, h.replica)
	case placement.FirstByte:
		if h := p.turns[e.TurnID]; h != nil && !h.first {
			h.first = true
			h.replica.prefill -= h.uncached
		}
	case placement.Finish:
		p.finish(e, now)
	case placement.Cancel:
		p.end(e.TurnID)
	case placement.Replicas:
		return p.setReplicas(e.Replicas, now)
	case placement.Stats:
		for _, r := range p.f.replicas {
			if r.ID == e.Replica {
				r.stats = e.Engine
			}
		}
	}
	return nil
}

func (p *Fleet) place(t placement.Turn, now time.Time, failed *replica) []placement.Action {
	f := &p.f
	f.open = f.open[:0]
	for _, r := range f.replicas {
		if r.Accepting && r != failed {
			f.open = append(f.open, r)
		}
	}
	if len(f.open) == 0 {
		p.waiting = append(p.waiting, t)
		return []placement.Action{placement.Queue{TurnID: t.ID, Position: len(p.waiting), Why: placement.WhyStarting}}
	}
	before := f.sessions[t.Key]
	r := p.rule.pick(f, &t, now)
	h := &held{turn: t, replica: r, uncached: t.PromptTokens - f.matched(&t, r)}
	p.turns[t.ID] = h
	r.held++
	f.total++
	r.prefill += h.uncached
	r.decode += t.PromptTokens
	if before != r {
		if before != nil {
			before.residents--
		}
		r.residents++
		f.sessions[t.Key] = r
	}
	r.roots[t.Root] = true
	r.sent[t.Key] = sent{t.PromptTokens, now}
	return []placement.Action{placement.Dispatch{
		TurnID: t.ID, Replica: r.ID, Generation: r.Generation, Rehomed: before != nil && before != r,
	}}
}

// end takes a turn off its replica.
func (p *Fleet) end(id uint64) *held {
	h := p.turns[id]
	if h == nil {
		return nil
	}
	delete(p.turns, id)
	h.replica.held--
	p.f.total--
	h.replica.decode -= h.turn.PromptTokens
	if !h.first {
		h.replica.prefill -= h.uncached
	}
	return h
}

func (p *Fleet) finish(e placement.Finish, now time.Time) {
	h := p.end(e.TurnID)
	if h == nil || e.Outcome.Failed {
		return
	}
	// The answer is in the cache, too, and comes back with the next prompt.
	h.replica.sent[h.turn.Key] = sent{h.turn.PromptTokens + e.Outcome.OutputTokens, now}
}

func (p *Fleet) setReplicas(set []placement.Replica, now time.Time) []placement.Action {
	f := &p.f
	next := make([]*replica, 0, len(set))
	for i, want := range set {
		var r *replica
		for _, old := range f.replicas {
			if old.ID == want.ID && old.Generation == want.Generation {
				r = old
			}
		}
		if r == nil {
			r = &replica{sent: map[placement.Key]sent{}, roots: map[uint64]bool{}}
		}
		r.Replica, r.index = want, i
		next = append(next, r)
	}
	for key, r := range f.sessions {
		if !slices.Contains(next, r) {
			delete(f.sessions, key)
		}
	}
	f.replicas = next
	waiting := p.waiting
	p.waiting = nil
	var out []placement.Action
	for _, t := range waiting {
		for _, a := range p.place(t, now, nil) {
			if _, again := a.(placement.Queue); !again {
				out = append(out, a)
			}
		}
	}
	return out
}
