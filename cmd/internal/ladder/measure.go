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
}

type sessionRecord struct {
	slot        int
	took, ideal time.Duration
}

func (l *log) in(now time.Time) bool { return !now.Before(l.from) && now.Before(l.to) }

func (l *log) turn(t turnRecord, now time.Time) {
	if l.in(now) {
		l.turns = append(l.turns, t)
	}
}

func (l *log) session(s sessionRecord, now time.Time) {
	if l.in(now) {
		l.sessions = append(l.sessions, s)
	}
}

// record is the record of r, which ends now.
func (r *request) record(now time.Time) turnRecord {
	c := r.conv
	return turnRecord{
		slot: c.slot, turn: r.turn,
		ttfb: r.first.Sub(r.began), routerWait: r.dispatched.Sub(r.arrived),
		decode: now.Sub(r.first), gap: c.script.turns[r.turn].gap,
		prompt: len(r.prompt), output: len(r.answer),
		cached: r.prefill.Cached(), ideal: idealCached(r), engine: r.engine.id,
		moved: r.rehomed || r.reason == placement.ReasonSpill,
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

// idealTurn is how long a turn takes on an idle engine that has cached of its
// prompt.
func idealTurn(cfg core.Config, cached, prompt, output int) time.Duration {
	took := cfg.Cost.Frontend
	for done := cached; done < prompt; {
		n := min(prompt-done, cfg.MaxBatchedTokens)
		took += cfg.Cost.Step(core.Load{Tokens: n, PrefillContext: float64(n) * (float64(done) + float64(n)/2)})
		done += n
	}
	one := cfg.Cost.Step(core.Load{Tokens: 1, DecodeContext: prompt})
	return took + time.Duration(output-1)*one
}

// Percentiles of a time in seconds.
type Percentiles struct {
	P50  float64 `json:"p50"`
	P95  float64 `json:"p95"`
	P99  float64 `json:"p99"`
	Max  float64 `json:"max"`
	Mean float64 `json:"mean"`
}

// Levels of a run: the placement decision alone between the clients and the
// engines' schedulers, or the whole router and HTTP on both its sides.
const (
	LevelPlacer = "placer"
	LevelRouter = "router"
)

// Result is the figures of one cell. Times are in seconds, shares 0 to 1. TTFB
// is the time from the user's wish to the first token, all waiting included.
type Result struct {
	Policy   string  `json:"policy"`
	Workload string  `json:"workload"`
	Sessions int     `json:"sessions"`
	Seconds  float64 `json:"seconds"`
	// Level says what stood between clients and schedulers: LevelPlacer or
	// LevelRouter.
	Level string `json:"level"`

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

// facts are what a run knows beside its log.
type facts struct {
	work        Workload
	length      time.Duration
	engines     []placement.ReplicaID
	preemptions uint64
	unfinished  int
	waiting     time.Duration // longest wait so far of a turn that has no place
}

func (s *sim) result() Result {
	f := facts{work: s.work, length: s.Length, unfinished: len(s.pending)}
	for _, p := range s.pending {
		if p.dispatched.IsZero() {
			f.waiting = max(f.waiting, s.now.Sub(p.arrived))
		}
	}
	for _, e := range s.engines {
		f.engines = append(f.engines, e.id)
		f.preemptions += e.core.Stats().Preemptions + e.preemptions
	}
	return s.log.result(f)
}

// result turns what was logged into figures.
func (l *log) result(f facts) Result {
	r := Result{
		Workload: f.work.Name, Sessions: f.work.Sessions, Seconds: f.length.Seconds(), Level: LevelPlacer,
		Turns: len(l.turns), Unfinished: f.unfinished, Rejected: l.rejected, Broken: l.broken,
		Preemptions: f.preemptions, MaxWait: f.waiting.Seconds(),
	}
	l.rates(&r)
	l.times(&r)
	l.fairness(&r, f)
	return r
}

// rates fills in what was done in the time and how much of it was saved.
func (l *log) rates(r *Result) {
	minutes := r.Seconds / 60
	var output, prompt, cached, ideal int
	for _, t := range l.turns {
		output, prompt = output+t.output, prompt+t.prompt
		cached, ideal = cached+t.cached, ideal+t.ideal
		if t.moved {
			r.Moves++
		}
	}
	r.SessionsPerHour = float64(len(l.sessions)) / r.Seconds * 3600
	r.TurnsPerMinute = float64(len(l.turns)) / minutes
	r.OutputPerMinute, r.PromptPerMinute = float64(output)/minutes, float64(prompt)/minutes
	r.WastedPerMinute = float64(max(ideal-cached, 0)) / minutes
	r.HitRate, r.IdealHitRate = ratio(cached, prompt), ratio(ideal, prompt)
}

// times fills in how long things took.
func (l *log) times(r *Result) {
	var all, first, later, session, tpot []float64
	var wait, ttfb time.Duration
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
		wait, ttfb = wait+t.routerWait, ttfb+t.ttfb
		r.MaxWait = max(r.MaxWait, t.routerWait.Seconds())
	}
	for _, x := range l.sessions {
		session = append(session, x.took.Seconds())
	}
	r.TTFB, r.FirstTurns, r.LaterTurns = percentiles(all), percentiles(first), percentiles(later)
	r.Session, r.TPOT = percentiles(session), percentiles(tpot)
	r.RouterShare = ratio(wait, ttfb)
}

// fairness fills in who got how much, and the check by Little's law.
func (l *log) fairness(r *Result, f facts) {
	var cycle time.Duration
	perSlot, perEngine := map[int]float64{}, map[placement.ReplicaID]int{}
	for _, t := range l.turns {
		cycle += t.ttfb + t.decode + t.gap
		perSlot[t.slot]++
		perEngine[t.engine]++
	}
	for _, e := range f.engines {
		r.PerEngine = append(r.PerEngine, perEngine[e])
	}
	if n := f.work.Sessions; n > 0 {
		counts := make([]float64, n)
		for slot, c := range perSlot {
			counts[slot] = c
		}
		r.JainClients = jain(counts)
		if f.work.Subagents == 0 {
			r.Little = cycle.Seconds() / r.Seconds / float64(n)
		}
	}
	slowdown := make([]float64, 0, len(l.sessions))
	for _, x := range l.sessions {
		slowdown = append(slowdown, x.took.Seconds()/x.ideal.Seconds())
	}
	r.JainSlowdown = jain(slowdown)
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
