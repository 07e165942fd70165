package core

import (
	"math/rand/v2"
	"testing"
	"time"
)

// world drives a scheduler with random requests and checks after each step
// what must always hold.
type world struct {
	t      testing.TB
	s      *Scheduler
	rng    *rand.Rand
	now    time.Time
	nextID ID
	live   map[ID]*expect
	seen   [][]Token // all sequences that ever entered, for the prefix bound
}

type expect struct {
	req Request
	got int
}

func (w *world) add() {
	var prompt []Token
	if len(w.seen) > 0 && w.rng.IntN(3) > 0 {
		old := w.seen[w.rng.IntN(len(w.seen))]
		prompt = append(prompt, old[:w.rng.IntN(len(old)+1)]...)
	}
	prompt = append(prompt, seq(w.rng.IntN(50), 1+w.rng.IntN(200))...)
	limit := w.s.cfg.MaxModelLen - 1
	prompt = prompt[:min(len(prompt), limit)]
	r := Request{
		ID: w.nextID, Prompt: prompt, Answer: seq(100+int(w.nextID), 1+w.rng.IntN(60)),
		MaxTokens: w.rng.IntN(40), Priority: w.rng.IntN(3),
	}
	w.nextID++
	if err := w.s.Add(r, w.now); err != nil {
		w.t.Fatal(err)
	}
	w.live[r.ID] = &expect{req: r}
	w.seen = append(w.seen, append(append([]Token{}, prompt...), r.Answer...))
}

func (w *world) abort() {
	for id := range w.live {
		if !w.s.Abort(id) {
			w.t.Fatalf("live request %d is unknown to the engine", id)
		}
		delete(w.live, id)
		return
	}
}

func (w *world) step() {
	st := w.s.Step(w.now)
	if st.Computed > w.s.cfg.MaxBatchedTokens {
		w.t.Fatalf("step computed %d of at most %d tokens", st.Computed, w.s.cfg.MaxBatchedTokens)
	}
	w.now = w.now.Add(st.Took)
	if st.Computed == 0 && !st.Wake.IsZero() {
		w.now = st.Wake
	}
	if st.Computed == 0 && st.Wake.IsZero() && len(w.live) > 0 {
		w.t.Fatalf("engine is idle with %d live requests", len(w.live))
	}
	for _, ev := range st.Tokens {
		w.take(ev)
	}
	w.check()
}

func (w *world) take(ev TokenEvent) {
	e := w.live[ev.ID]
	if e == nil {
		w.t.Fatalf("token for request %d, which is not live", ev.ID)
	}
	if ev.Index != e.got || ev.Token != e.req.Answer[e.got] {
		w.t.Fatalf("request %d: token %d at %d, want %d at %d", ev.ID, ev.Token, ev.Index, e.req.Answer[e.got], e.got)
	}
	if (ev.Prefill != nil) != (e.got == 0) || (ev.Timing != nil) != (ev.Reason != Unfinished) {
		w.t.Fatalf("request %d: first and last token must be marked: %+v", ev.ID, ev)
	}
	if ev.Prefill != nil {
		w.checkPrefill(e, *ev.Prefill)
	}
	if ev.Timing != nil {
		tm := ev.Timing
		if tm.Scheduled.Before(tm.Queued) || tm.First.Before(tm.Scheduled) || tm.Last.Before(tm.First) {
			w.t.Fatalf("request %d: timing out of order: %+v", ev.ID, tm)
		}
		delete(w.live, ev.ID)
	}
	e.got++
}

// checkPrefill bounds the cached tokens by the longest prefix that any other
// sequence shares, whole blocks only, never the whole prompt.
func (w *world) checkPrefill(e *expect, p Prefill) {
	best := 0
	for _, other := range w.seen {
		n := 0
		for n < min(len(other), len(e.req.Prompt)) && other[n] == e.req.Prompt[n] {
			n++
		}
		best = max(best, n)
	}
	cached := p.Cached()
	if cached%w.s.cfg.BlockSize != 0 || cached > best || cached > len(e.req.Prompt)-1 {
		w.t.Fatalf("request %d: %d cached tokens of %d, longest shared prefix %d", e.req.ID, cached, len(e.req.Prompt), best)
	}
	if p.Prompt != len(e.req.Prompt) || cached+p.Created > p.Prompt {
		w.t.Fatalf("request %d: prefill %+v does not add up", e.req.ID, p)
	}
}

// check recounts all references from the requests' side.
func (w *world) check() {
	s := w.s
	refs := make(map[*block]int)
	for _, r := range s.requests {
		for _, b := range r.blocks {
			refs[b]++
		}
		if len(r.blocks) > 0 && (r.phase == waiting || r.phase == preempted) {
			w.t.Fatalf("request %d waits and holds %d blocks", r.ID, len(r.blocks))
		}
	}
	for b, n := range refs {
		if b.refs != n || b.next != nil {
			w.t.Fatalf("block has %d references, %d requests hold it, in the free list: %v", b.refs, n, b.next != nil)
		}
	}
	free := 0
	for b := s.pool.free.next; b != &s.pool.free; b = b.next {
		free++
		if b.refs != 0 {
			w.t.Fatal("a free block is referenced")
		}
	}
	if free != s.pool.freeN || free+len(refs) != s.pool.usable {
		w.t.Fatalf("%d free (counted as %d) and %d used blocks of %d", free, s.pool.freeN, len(refs), s.pool.usable)
	}
	if len(s.running) > s.cfg.MaxNumSeqs {
		w.t.Fatalf("%d running of at most %d", len(s.running), s.cfg.MaxNumSeqs)
	}
	if len(s.running)+len(s.waiting)+len(s.loading) != len(s.requests) || len(s.requests) != len(w.live) {
		w.t.Fatalf("%d running, %d waiting, %d loading, %d known, %d live", len(s.running), len(s.waiting), len(s.loading), len(s.requests), len(w.live))
	}
}

func run(t testing.TB, cfg Config, seed uint64, steps int) {
	w := &world{t: t, s: newTest(t, cfg), rng: rand.New(rand.NewPCG(seed, 1)), now: epoch, live: make(map[ID]*expect)}
	for range steps {
		switch n := w.rng.IntN(10); {
		case n < 3:
			w.add()
		case n == 3:
			w.abort()
		default:
			w.step()
		}
	}
	for len(w.live) > 0 {
		w.step()
	}
	if st := w.s.Stats(); st.KVUsed != 0 || st.Running+st.Waiting != 0 {
		t.Fatalf("an idle engine still shows %+v", st)
	}
}

func TestInvariantsUnderRandomLoad(t *testing.T) {
	configs := map[string]Config{
		"roomy":     {Blocks: 400},
		"tight":     {Blocks: 30, MaxModelLen: 400, MaxBatchedTokens: 64},
		"priority":  {Blocks: 30, MaxModelLen: 400, Priority: true, MaxNumSeqs: 4},
		"watermark": {Blocks: 40, MaxModelLen: 400, Watermark: 0.1, ChunkOnlyAdmission: true},
		"threshold": {Blocks: 60, MaxBatchedTokens: 100, LongPrefillThreshold: 40},
		"no cache":  {Blocks: 40, NoPrefixCache: true},
		"host":      {Blocks: 40, MaxModelLen: 400, Host: Host{Tokens: 4000, TokensPerSecond: 20_000, Latency: time.Millisecond}},
		"host now":  {Blocks: 40, MaxModelLen: 400, Host: Host{Tokens: 4000}, Priority: true},
	}
	cost := Cost{Base: time.Millisecond, PerToken: 1000}
	for name, cfg := range configs {
		t.Run(name, func(t *testing.T) {
			cfg.Cost = cost
			for seed := range uint64(20) {
				run(t, cfg, seed, 400)
			}
		})
	}
}

func FuzzScheduler(f *testing.F) {
	f.Add(uint64(1), uint8(30), uint8(16), false, uint8(0))
	f.Add(uint64(2), uint8(40), uint8(4), true, uint8(200))
	f.Fuzz(func(t *testing.T, seed uint64, blocks, size uint8, priority bool, host uint8) {
		cfg := Config{Blocks: 20 + int(blocks), BlockSize: 1 + int(size)%32, Priority: priority, MaxBatchedTokens: 64, Host: Host{Tokens: int(host) * 8}}
		run(t, cfg, seed, 100)
	})
}

func BenchmarkStep(b *testing.B) {
	s := newTest(b, Config{})
	for id := range ID(16) {
		add(b, s, Request{ID: id, Prompt: seq(int(id), 1500), Answer: seq(99, 1000), Endless: true})
	}
	b.ReportAllocs()
	next := ID(16)
	for b.Loop() {
		for _, ev := range s.Step(epoch).Tokens {
			if ev.Reason != Unfinished {
				add(b, s, Request{ID: next, Prompt: seq(int(next)%40, 1500), Answer: seq(99, 1000), Endless: true})
				next++
			}
		}
	}
}
