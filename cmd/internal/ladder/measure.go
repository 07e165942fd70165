package ladder

import (
	"math"
	"slices"
	"time"

	"github.com/lm-warden/warden/router/placement"
	"github.com/lm-warden/warden/supervisor/simengine/core"
)

// log collects what is measured between from and to.
type log struct {
	from, to time.Time
	turns    []turnRecord
	sessions []sessionRecord
	rejected int
	broken   int
}

type turnRecord struct {
	slot, turn     int
	ttfb           time.Duration // from the user's wish to the first token
	routerWait     time.Duration
	decode         time.Duration
	gap            time.Duration
	prompt, output int
	cached, ideal  int
	engine         placement.ReplicaID
	moved          bool
	sub            bool
}

type sessionRecord struct {
	slot        int
	took, ideal time.Duration
}

func (l *log) in(now time.Time) bool { return !now.Before(l.from) && now.Before(l.to) }

func (l *log) turn(r *request, now time.Time) {
	if !l.in(now) {
		return
	}
	c := r.conv
	l.turns = append(l.turns, turnRecord{
		slot: c.slot, turn: r.turn,
		ttfb: r.first.Sub(r.began), routerWait: r.dispatched.Sub(r.arrived),
		decode: now.Sub(r.first), gap: c.script.turns[r.turn].gap,
		prompt: len(r.prompt), output: len(r.answer),
		cached: r.prefill.Cached(), ideal: idealCached(r), engine: r.engine.id,
		moved: r.rehomed || r.reason == placement.ReasonSpill,
		sub:   !c.parent.IsZero(),
	})
}

func (l *log) session(c *conversation, now time.Time) {
	if l.in(now) {
		l.sessions = append(l.sessions, sessionRecord{c.slot, now.Sub(c.began), c.ideal})
	}
}

// idealCached is what an endless cache would have had of a prompt.
func idealCached(r *request) int {
	if r.turn == 0 {
		return len(r.conv.script.system)
	}
	t := r.conv.script.turns[r.turn]
	return len(r.prompt) - t.message
}

// idealTurn is how long a turn takes on an idle engine with an endless cache.
func (s *sim) idealTurn(r *request) time.Duration {
	cfg := s.engines[0].core.Config()
	cached := idealCached(r)
	took := cfg.Cost.Frontend
	for done := cached; done < len(r.prompt); {
		n := min(len(r.prompt)-done, cfg.MaxBatchedTokens)
		took += cfg.Cost.Step(core.Load{Tokens: n, PrefillContext: float64(n) * (float64(done) + float64(n)/2)})
		done += n
	}
	one := cfg.Cost.Step(core.Load{Tokens: 1, DecodeContext: len(r.prompt)})
	return took + time.Duration(len(r.answer)-1)*one
}

// Percentiles of a time in seconds.
type Percentiles struct {
	P50  float64 `json:"p50"`
	P95  float64 `json:"p95"`
	P99  float64 `json:"p99"`
	Max  float64 `json:"max"`
	Mean float64 `json:"mean"`
}

// Result is the figures of one cell. Times are in seconds, shares 0 to 1. TTFB
// is the time from the user's wish to the first token, all waiting included.
type Result struct {
	Policy   string  `json:"policy"`
	Workload string  `json:"workload"`
	Sessions int     `json:"sessions"`
	Seconds  float64 `json:"seconds"`

	TTFB       Percentiles `json:"ttfb_seconds"`
	FirstTurns Percentiles `json:"ttfb_first_turns_seconds"`
	LaterTurns Percentiles `json:"ttfb_later_turns_seconds"`
	Session    Percentiles `json:"session_seconds"`
	TPOT       Percentiles `json:"tpot_seconds"`
	// RouterShare is the part of all TTFB spent in the router's queue; MaxWait
	// the longest such wait of a finished or waiting turn.
	RouterShare float64 `json:"router_share"`
	MaxWait     float64 `json:"max_router_wait_seconds"`

	SessionsPerHour float64 `json:"sessions_per_hour"`
	TurnsPerMinute  float64 `json:"turns_per_minute"`
	OutputPerMinute float64 `json:"output_tokens_per_minute"`
	PromptPerMinute float64 `json:"prompt_tokens_per_minute"`
	// WastedPerMinute is computed prompt tokens that an endless cache had.
	WastedPerMinute float64 `json:"wasted_prompt_tokens_per_minute"`
	HitRate         float64 `json:"hit_rate"`
	IdealHitRate    float64 `json:"ideal_hit_rate"`

	Turns       int     `json:"turns"`
	Unfinished  int     `json:"unfinished_turns"`
	Rejected    int     `json:"rejected_turns"`
	Broken      int     `json:"broken_turns"`
	Moves       int     `json:"moves"`
	Preemptions uint64  `json:"preemptions"`
	PerEngine   []int   `json:"turns_per_engine"`
	JainClients float64 `json:"jain_clients"`
	// JainSlowdown is over sessions: their time against that of an idle fleet.
	JainSlowdown float64 `json:"jain_slowdown"`
	// Little is (TTFB + decode + gap) x rate / sessions: 1 in a closed loop
	// that is in balance. 0 where it does not apply.
	Little float64 `json:"little"`
}

func (s *sim) result() Result {
	l, seconds := &s.log, s.Length.Seconds()
	r := Result{
		Workload: s.work.Name, Sessions: s.work.Sessions, Seconds: seconds,
		Turns: len(l.turns), Unfinished: len(s.pending), Rejected: l.rejected, Broken: l.broken,
	}
	minutes := seconds / 60
	r.SessionsPerHour = float64(len(l.sessions)) / seconds * 3600
	r.TurnsPerMinute = float64(len(l.turns)) / minutes
	var all, first, later, session, tpot []float64
	var output, prompt, cached, ideal int
	var wait, ttfb, cycle time.Duration
	perSlot, perEngine := map[int]float64{}, map[placement.ReplicaID]int{}
	for _, t := range l.turns {
		all = append(all, t.ttfb.Seconds())
		if t.turn == 0 {
			first = append(first, t.ttfb.Seconds())
		} else {
			later = append(later, t.ttfb.Seconds())
		}
		if t.output > 1 {
			tpot = append(tpot, t.decode.Seconds()/float64(t.output-1))
		}
		output, prompt = output+t.output, prompt+t.prompt
		cached, ideal = cached+t.cached, ideal+t.ideal
		wait, ttfb, cycle = wait+t.routerWait, ttfb+t.ttfb, cycle+t.ttfb+t.decode+t.gap
		r.MaxWait = max(r.MaxWait, t.routerWait.Seconds())
		perSlot[t.slot]++
		perEngine[t.engine]++
		if t.moved {
			r.Moves++
		}
	}
	var slowdown []float64
	for _, x := range l.sessions {
		session = append(session, x.took.Seconds())
		slowdown = append(slowdown, x.took.Seconds()/x.ideal.Seconds())
	}
	for _, p := range s.pending {
		if p.dispatched.IsZero() {
			r.MaxWait = max(r.MaxWait, s.now.Sub(p.arrived).Seconds())
		}
	}
	r.TTFB, r.FirstTurns, r.LaterTurns = percentiles(all), percentiles(first), percentiles(later)
	r.Session, r.TPOT = percentiles(session), percentiles(tpot)
	r.OutputPerMinute, r.PromptPerMinute = float64(output)/minutes, float64(prompt)/minutes
	r.WastedPerMinute = float64(max(ideal-cached, 0)) / minutes
	r.HitRate, r.IdealHitRate = ratio(cached, prompt), ratio(ideal, prompt)
	r.RouterShare = ratio(wait, ttfb)
	for _, e := range s.engines {
		r.PerEngine = append(r.PerEngine, perEngine[e.id])
		r.Preemptions += e.core.Stats().Preemptions + e.preemptions
	}
	if n := s.work.Sessions; n > 0 {
		counts := make([]float64, n)
		for slot, c := range perSlot {
			counts[slot] = c
		}
		r.JainClients = jain(counts)
		if s.work.Subagents == 0 {
			r.Little = cycle.Seconds() / seconds / float64(n)
		}
	}
	r.JainSlowdown = jain(slowdown)
	return r
}

func ratio[T int | time.Duration](a, b T) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

func percentiles(v []float64) Percentiles {
	if len(v) == 0 {
		return Percentiles{}
	}
	slices.Sort(v)
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	at := func(q float64) float64 { return v[min(int(math.Ceil(q*float64(len(v))))-1, len(v)-1)] }
	return Percentiles{P50: at(0.5), P95: at(0.95), P99: at(0.99), Max: v[len(v)-1], Mean: sum / float64(len(v))}
}

// jain is Jain's fairness index: 1 when all are equal, 1/n when one has all.
func jain(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	sum, squares := 0.0, 0.0
	for _, x := range v {
		sum += x
		squares += x * x
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (float64(len(v)) * squares)
}
