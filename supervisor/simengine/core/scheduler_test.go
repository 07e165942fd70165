package core

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var epoch = time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)

// seq returns n tokens that differ between seeds and positions.
func seq(seed, n int) []Token {
	out := make([]Token, n)
	for i := range out {
		out[i] = Token(seed*1_000_000 + i)
	}
	return out
}

func newTest(t testing.TB, cfg Config) *Scheduler {
	t.Helper()
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func add(t testing.TB, s *Scheduler, r Request) {
	t.Helper()
	if err := s.Add(r, epoch); err != nil {
		t.Fatal(err)
	}
}

// drain steps until nothing is left and returns all events in order.
func drain(t testing.TB, s *Scheduler) []TokenEvent {
	t.Helper()
	now := epoch
	var all []TokenEvent
	for range 100_000 {
		st := s.Step(now)
		all = append(all, st.Tokens...)
		switch {
		case st.Computed > 0:
			now = now.Add(st.Took)
		case !st.Wake.IsZero():
			now = st.Wake
		default:
			if left := s.Stats(); left.Running+left.Waiting > 0 {
				t.Fatalf("engine is idle with %d running and %d waiting", left.Running, left.Waiting)
			}
			return all
		}
	}
	t.Fatal("engine never became idle")
	return nil
}

func prefillOf(t testing.TB, events []TokenEvent, id ID) Prefill {
	t.Helper()
	for _, ev := range events {
		if ev.ID == id && ev.Prefill != nil {
			return *ev.Prefill
		}
	}
	t.Fatalf("request %d has no first token", id)
	return Prefill{}
}

// The expected figures are computed by hand; the first row is what vLLM 0.32
// answered to the same prompt sent twice.
func TestCachedTokensOfARepeatedPrompt(t *testing.T) {
	tests := []struct {
		name          string
		block, prompt int
		cached        int
		createdFirst  int
	}{
		{"tail block recomputed", 32, 2729, 2720, 2720},
		{"aligned prompt recomputes its last block", 16, 64, 48, 64},
		{"one token past a block", 16, 65, 64, 64},
		{"shorter than a block", 16, 15, 0, 0},
		{"exactly one block", 16, 16, 0, 16},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newTest(t, Config{BlockSize: tt.block, Blocks: 400})
			prompt := seq(1, tt.prompt)
			add(t, s, Request{ID: 1, Prompt: prompt, Answer: seq(9, 1)})
			first := prefillOf(t, drain(t, s), 1)
			add(t, s, Request{ID: 2, Prompt: prompt, Answer: seq(9, 1)})
			second := prefillOf(t, drain(t, s), 2)
			if want := (Prefill{Prompt: tt.prompt, Created: tt.createdFirst}); first != want {
				t.Errorf("first: got %+v, want %+v", first, want)
			}
			want := Prefill{Prompt: tt.prompt, Local: tt.cached, Created: max(tt.createdFirst-tt.cached, 0)}
			if second != want {
				t.Errorf("second: got %+v, want %+v", second, want)
			}
			st := s.Stats()
			if st.PrefixQueries != uint64(2*tt.prompt) || st.PrefixHits != uint64(tt.cached) {
				t.Errorf("counters say %d hits of %d queries", st.PrefixHits, st.PrefixQueries)
			}
		})
	}
}

func TestNextTurnReusesPromptAndAnswer(t *testing.T) {
	s := newTest(t, Config{})
	prompt, answer := seq(1, 100), seq(2, 61)
	add(t, s, Request{ID: 1, Prompt: prompt, Answer: answer})
	drain(t, s)
	// The last answer token was sampled but never computed, so 160 tokens of
	// the 161 have KV: ten full blocks of 16.
	next := slices.Concat(prompt, answer, seq(3, 50))
	add(t, s, Request{ID: 2, Prompt: next, Answer: seq(4, 1)})
	if got := prefillOf(t, drain(t, s), 2).Local; got != 160 {
		t.Errorf("second turn read %d tokens from the cache, want 160", got)
	}
}

func TestSaltSeparatesCaches(t *testing.T) {
	s := newTest(t, Config{})
	for i, salt := range []string{"a", "b", "a"} {
		add(t, s, Request{ID: ID(i), Prompt: seq(1, 100), Answer: seq(2, 1), Salt: salt})
	}
	events := drain(t, s)
	if a, b := prefillOf(t, events, 2).Local, prefillOf(t, events, 1).Local; a != 96 || b != 0 {
		t.Errorf("same salt read %d tokens (want 96), other salt %d (want 0)", a, b)
	}
}

func TestIdenticalPromptsInOneStepShareBlocks(t *testing.T) {
	s := newTest(t, Config{})
	for id := range ID(2) {
		add(t, s, Request{ID: id, Prompt: seq(1, 100), Answer: seq(2, 3)})
	}
	st := s.Step(epoch)
	// 100 tokens for the first, 4 for the second, which hits six blocks that
	// the same step fills.
	if st.Computed != 104 || len(st.Tokens) != 2 {
		t.Errorf("step computed %d tokens and emitted %d, want 104 and 2", st.Computed, len(st.Tokens))
	}
}

func TestChunkedPrefillSharesTheBudget(t *testing.T) {
	tests := []struct {
		name      string
		threshold int
		want      []int // tokens computed per step
	}{
		// 5,000 tokens fill two steps; the rest (904) shares the third with
		// the second prompt (1,000), which has not had a turn before.
		{"no threshold", 0, []int{2048, 2048, 1904}},
		// Both get 500 a step until the second is done; alone, the first
		// takes its last 4,000 tokens in 2,048s.
		{"threshold 500", 500, []int{1000, 1000, 2048, 1952}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newTest(t, Config{Blocks: 1000, LongPrefillThreshold: tt.threshold})
			add(t, s, Request{ID: 1, Prompt: seq(1, 5000), Answer: seq(8, 1)})
			add(t, s, Request{ID: 2, Prompt: seq(2, 1000), Answer: seq(9, 1)})
			var got []int
			for {
				st := s.Step(epoch)
				if st.Computed == 0 {
					break
				}
				got = append(got, st.Computed)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAdmissionStopsAtTheFirstWithoutRoom(t *testing.T) {
	s := newTest(t, Config{Blocks: 101}) // 1,600 tokens
	add(t, s, Request{ID: 1, Prompt: seq(1, 1000), Answer: seq(7, 40)})
	add(t, s, Request{ID: 2, Prompt: seq(2, 1000), Answer: seq(8, 1)})
	add(t, s, Request{ID: 3, Prompt: seq(3, 20), Answer: seq(9, 1)})
	st := s.Step(epoch)
	if len(st.Tokens) != 1 || st.Tokens[0].ID != 1 {
		t.Fatalf("first step emitted %+v, want one token of request 1", st.Tokens)
	}
	if got := s.Stats(); got.Running != 1 || got.Waiting != 2 {
		t.Errorf("%d running and %d waiting: the small third request must wait behind the second", got.Running, got.Waiting)
	}
	order := finishOrder(drain(t, s))
	if diff := cmp.Diff([]ID{1, 2, 3}, order); diff != "" {
		t.Error(diff)
	}
}

func finishOrder(events []TokenEvent) []ID {
	var order []ID
	for _, ev := range events {
		if ev.Reason != Unfinished {
			order = append(order, ev.ID)
		}
	}
	return order
}

// Cached blocks that nobody references count as free and as needed: a warm
// request needs as much room as a cold one.
func TestWarmRequestNeedsItsWholePromptsRoom(t *testing.T) {
	s := newTest(t, Config{Blocks: 101})
	warm := seq(1, 800)
	add(t, s, Request{ID: 1, Prompt: warm, Answer: seq(7, 1)})
	drain(t, s)
	// Request 2 leaves 100-57 = 43 blocks, of which 43 still hold the warm
	// prefix's beginning; the warm request needs 51.
	add(t, s, Request{ID: 2, Prompt: seq(2, 900), Answer: seq(8, 5)})
	add(t, s, Request{ID: 3, Prompt: slices.Concat(warm, seq(3, 10)), Answer: seq(9, 1)})
	s.Step(epoch)
	if got := s.Stats(); got.Running != 1 || got.Waiting != 1 {
		t.Errorf("%d running, %d waiting; want the warm request to wait", got.Running, got.Waiting)
	}
}

func TestEvictionTakesTheEndOfTheOldestConversation(t *testing.T) {
	s := newTest(t, Config{Blocks: 101})
	add(t, s, Request{ID: 1, Prompt: seq(1, 641), Answer: seq(7, 1)}) // 41 blocks, 40 hashed
	drain(t, s)
	add(t, s, Request{ID: 2, Prompt: seq(2, 801), Answer: seq(8, 1)}) // 51 blocks
	drain(t, s)
	// 100 blocks: 60 were never used or unhashed, so the second took none of
	// the first's. The third takes the 10 left and 20 of the first's end.
	add(t, s, Request{ID: 3, Prompt: seq(3, 479), Answer: seq(9, 1)}) // 30 blocks
	drain(t, s)
	add(t, s, Request{ID: 4, Prompt: seq(1, 641), Answer: seq(7, 1)})
	if got := prefillOf(t, drain(t, s), 4).Local; got != 20*16 {
		t.Errorf("the oldest conversation kept %d tokens, want the first %d", got, 20*16)
	}
}

func TestPreemptionTakesTheLastAdmittedAndRecomputes(t *testing.T) {
	s := newTest(t, Config{Blocks: 21}) // 320 tokens
	a, b := seq(8, 100), seq(9, 100)
	add(t, s, Request{ID: 1, Prompt: seq(1, 150), Answer: a})
	add(t, s, Request{ID: 2, Prompt: seq(2, 150), Answer: b})
	events := drain(t, s)
	if got := s.Stats().Preemptions; got != 1 {
		t.Errorf("%d preemptions, want 1", got)
	}
	if diff := cmp.Diff([]ID{1, 2}, finishOrder(events)); diff != "" {
		t.Error(diff)
	}
	for id, want := range map[ID][]Token{1: a, 2: b} {
		var got []Token
		for _, ev := range events {
			if ev.ID == id {
				got = append(got, ev.Token)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("request %d: %s", id, diff)
		}
	}
	last := events[len(events)-1]
	if last.Timing == nil || last.Timing.Preemptions != 1 {
		t.Errorf("the preempted request's timing is %+v", last.Timing)
	}
	if q := s.Stats().PrefixQueries; q != 300 {
		t.Errorf("%d tokens queried; a lookup after preemption must not count", q)
	}
}

func TestPriorityOvertakesAndPreemptsTheLargest(t *testing.T) {
	s := newTest(t, Config{Blocks: 21, Priority: true, MaxNumSeqs: 2})
	add(t, s, Request{ID: 1, Prompt: seq(1, 150), Answer: seq(7, 60), Priority: 9})
	add(t, s, Request{ID: 2, Prompt: seq(2, 50), Answer: seq(8, 3), Priority: 5})
	add(t, s, Request{ID: 3, Prompt: seq(3, 140), Answer: seq(9, 60), Priority: 1})
	s.Step(epoch)
	if s.Stats().Running != 2 || s.requests[1].phase != waiting {
		t.Fatal("requests 3 and 2 must run before request 1")
	}
	if diff := cmp.Diff([]ID{2, 3, 1}, finishOrder(drain(t, s))); diff != "" {
		t.Error(diff)
	}
	if s.Stats().Preemptions == 0 {
		t.Error("request 1 never had to give way")
	}
}

func TestWatermarkHoldsBackAdmissionsNextToRunningOnes(t *testing.T) {
	for _, tt := range []struct {
		watermark float64
		running   int
	}{{0, 2}, {0.2, 1}} {
		s := newTest(t, Config{Blocks: 101, Watermark: tt.watermark})
		add(t, s, Request{ID: 1, Prompt: seq(1, 800), Answer: seq(7, 5)})
		s.Step(epoch)
		add(t, s, Request{ID: 2, Prompt: seq(2, 600), Answer: seq(8, 5)})
		s.Step(epoch)
		if got := s.Stats().Running; got != tt.running {
			t.Errorf("watermark %v: %d running, want %d", tt.watermark, got, tt.running)
		}
	}
}

func TestChunkOnlyAdmission(t *testing.T) {
	for chunkOnly, running := range map[bool]int{false: 1, true: 2} {
		s := newTest(t, Config{Blocks: 201, MaxBatchedTokens: 2048, ChunkOnlyAdmission: chunkOnly})
		add(t, s, Request{ID: 1, Prompt: seq(1, 1900), Answer: seq(7, 1)})
		add(t, s, Request{ID: 2, Prompt: seq(2, 1900), Answer: seq(8, 1)})
		s.plan(epoch)
		if got := len(s.running); got != running {
			t.Errorf("chunk-only %v: %d admitted, want %d", chunkOnly, got, running)
		}
	}
}

func TestHostTierBringsBackWhatWasEvicted(t *testing.T) {
	s := newTest(t, Config{Blocks: 101, Host: Host{Tokens: 16_000, TokensPerSecond: 1600, Latency: time.Millisecond}})
	old := seq(1, 801)
	add(t, s, Request{ID: 1, Prompt: old, Answer: seq(7, 20)})
	drain(t, s)
	add(t, s, Request{ID: 2, Prompt: seq(2, 1580), Answer: seq(8, 1)})
	drain(t, s)
	add(t, s, Request{ID: 3, Prompt: old, Answer: seq(9, 1)})
	st := s.Step(epoch)
	// One block of the old prompt survived on the device (its first), 49 come
	// from the host: 784 tokens at 1,600 a second.
	local := 16
	wake := epoch.Add(time.Millisecond + time.Duration(float64(800-local)/1600*float64(time.Second)))
	if st.Computed != 0 || !st.Wake.Equal(wake) {
		t.Fatalf("step %+v, want to wait for the load until %v", st, wake)
	}
	if got := s.Stats(); got.Waiting != 1 || got.Deferred != 1 {
		t.Errorf("stats %+v, want one deferred request", got)
	}
	if st = s.Step(wake.Add(-1)); st.Computed != 0 {
		t.Error("the request ran before its load ended")
	}
	st = s.Step(wake)
	if want := (Prefill{Prompt: 801, Local: local, Host: 800 - local}); len(st.Tokens) != 1 || *st.Tokens[0].Prefill != want {
		t.Fatalf("got %+v, want one token with %+v", st.Tokens, want)
	}
	if got := s.Stats().HostHits; got != uint64(800-local) {
		t.Errorf("%d host hits counted", got)
	}
}

func TestHostTierIsAnLRU(t *testing.T) {
	h := newTier(Host{Tokens: 48}, 16)
	for _, hash := range []uint64{1, 2, 3, 1, 4} {
		h.store(hash)
	}
	if got := []int{h.match([]uint64{1}), h.match([]uint64{2}), h.match([]uint64{3, 4})}; !slices.Equal(got, []int{1, 0, 2}) {
		t.Errorf("block 2 must be gone and the others there: %v", got)
	}
}

func TestAnswersEnd(t *testing.T) {
	tests := []struct {
		name   string
		req    Request
		tokens int
		reason FinishReason
	}{
		{"own end", Request{Answer: seq(2, 7)}, 7, Stop},
		{"own end at the limit", Request{Answer: seq(2, 7), MaxTokens: 7}, 7, Stop},
		{"max tokens", Request{Answer: seq(2, 7), MaxTokens: 3}, 3, Length},
		{"no end of its own", Request{Answer: seq(2, 7), MaxTokens: 7, Endless: true}, 7, Length},
		{"context full", Request{Answer: seq(2, 500)}, 20, Length},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newTest(t, Config{MaxModelLen: 120})
			tt.req.ID, tt.req.Prompt = 1, seq(1, 100)
			add(t, s, tt.req)
			events := drain(t, s)
			if last := events[len(events)-1]; len(events) != tt.tokens || last.Reason != tt.reason {
				t.Errorf("%d tokens, ended by %q; want %d and %q", len(events), last.Reason, tt.tokens, tt.reason)
			}
		})
	}
}

func TestAbortFreesBlocksAndKeepsTheCache(t *testing.T) {
	s := newTest(t, Config{})
	prompt := seq(1, 3000)
	add(t, s, Request{ID: 1, Prompt: prompt, Answer: seq(2, 100)})
	s.Step(epoch) // 2,048 tokens computed
	if !s.Abort(1) || s.Abort(1) {
		t.Fatal("abort must work once")
	}
	if st := s.Stats(); st.Running != 0 || st.KVUsed != 0 {
		t.Errorf("after the abort: %+v", st)
	}
	add(t, s, Request{ID: 2, Prompt: prompt, Answer: seq(2, 1)})
	if got := prefillOf(t, drain(t, s), 2).Local; got != 2048 {
		t.Errorf("%d tokens survived the abort, want 2048", got)
	}
}

func TestAddRefusesWhatCanNeverRun(t *testing.T) {
	s := newTest(t, Config{MaxModelLen: 100})
	add(t, s, Request{ID: 1, Prompt: seq(1, 10), Answer: seq(2, 5)})
	for name, r := range map[string]Request{
		"no prompt": {ID: 2, Answer: seq(2, 1)},
		"no answer": {ID: 2, Prompt: seq(1, 1)},
		"too long":  {ID: 2, Prompt: seq(1, 100), Answer: seq(2, 1)},
		"same id":   {ID: 1, Prompt: seq(1, 1), Answer: seq(2, 1)},
	} {
		if err := s.Add(r, epoch); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestConfigErrors(t *testing.T) {
	for name, cfg := range map[string]Config{
		"context larger than the blocks": {Blocks: 10, MaxModelLen: 200},
		"no usable block":                {Blocks: 1},
		"watermark":                      {Watermark: 1},
		"host":                           {Host: Host{Tokens: -1}},
	} {
		if _, err := New(cfg); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestCostOfAStep(t *testing.T) {
	p, err := FindProfile("a4000-qwen3-4b")
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		load Load
		want time.Duration
	}{
		{"one decode at 10k", Load{Tokens: 1, DecodeContext: 10_000}, 5*time.Millisecond + 21*time.Millisecond + 4_700*time.Microsecond},
		{"first chunk of 2048", Load{Tokens: 2048, PrefillContext: 2048 * 1024}, 5*time.Millisecond + 2048*178*time.Microsecond + 27_472_691},
	}
	for _, tt := range tests {
		if got := p.Cost.Step(tt.load); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
	if got := p.Cost.Scaled(2).Step(Load{Tokens: 1}); got != 13*time.Millisecond {
		t.Errorf("twice as fast: %v, want 13ms", got)
	}
}

// The reference machine reads about 3,600 tokens a second and takes about
// 25 ms for a decode step.
func TestReferenceProfileMeetsItsMeasurement(t *testing.T) {
	p, err := FindProfile("a4000-qwen3-4b")
	if err != nil {
		t.Fatal(err)
	}
	s := newTest(t, Config{BlockSize: p.BlockSize, Blocks: p.Blocks, Cost: p.Cost})
	add(t, s, Request{ID: 1, Prompt: seq(1, 10_800), Answer: seq(2, 101)})
	events := drain(t, s)
	timing := events[len(events)-1].Timing
	rate := 10_800 / timing.First.Sub(timing.Scheduled).Seconds()
	if rate < 3_400 || rate > 4_400 {
		t.Errorf("prefill at %.0f tokens/s", rate)
	}
	if step := timing.Last.Sub(timing.First) / 100; step < 22*time.Millisecond || step > 33*time.Millisecond {
		t.Errorf("decode step of %v", step)
	}
}

func TestEveryProfileBuildsAnEngine(t *testing.T) {
	for _, p := range Profiles() {
		if p.Source == "" {
			t.Errorf("%s: no source", p.Name)
		}
		newTest(t, Config{BlockSize: p.BlockSize, Blocks: p.Blocks, Cost: p.Cost})
	}
	if _, err := FindProfile("h100"); err == nil {
		t.Error("unknown profile accepted")
	}
}
