package realladder

import (
	"encoding/json"
	"io"
	"math"
	"slices"
	"time"

	"github.com/lm-warden/warden/cmd/internal/ladder"
	"github.com/lm-warden/warden/cmd/internal/load"
	"github.com/lm-warden/warden/cmd/internal/proxies"
)

// Report is everything that a run found.
type Report struct {
	Started time.Time       `json:"started"`
	Further []time.Time     `json:"further_runs_started,omitempty"` // whose cells are here, too
	Machine proxies.Machine `json:"machine"`
	Seconds float64         `json:"seconds_a_cell"`
	Scale   int             `json:"lengths_divided_by"`
	Shape   load.Shape      `json:"shape"`
	// Rates were measured before the first round and after each.
	Rates  []Rates  `json:"rates"`
	Arms   []string `json:"arms"`
	Absent []Absent `json:"absent"`
	Cells  []Cell   `json:"cells"`
	// Simulated cells were measured on no engine.
	Simulated []SimulatedCell `json:"simulated"`
	// Bounds are simulated, too, on engines that evict nothing: what is left to gain.
	Bounds []SimulatedCell `json:"simulated_bounds"`
	// TradeOffs are simulated, too: admission with more and less overcommit.
	TradeOffs []SimulatedCell `json:"simulated_trade_offs"`
}

// Absent is what could not be measured.
type Absent struct {
	Arm string `json:"arm"`
	Why string `json:"why"`
}

// SimulatedCell is a cell in virtual time.
type SimulatedCell struct {
	Arm string `json:"arm"`
	ladder.Result
}

// WriteJSON writes the report for machines.
func (r Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// figures are the columns. Times are in seconds; NaN: there is none.
type figures struct {
	SessionsPerHour, TokensPerMinute        float64
	P50, P95, Max, FirstP50, LaterP50       float64
	SessionP50, Cached, Failed, NotFinished float64
}

func figuresOf(r load.Report) figures {
	return figures{
		SessionsPerHour: r.SessionsPerHour, TokensPerMinute: r.OutputTokensPerMin,
		P50: value(r.TTFTp50), P95: value(r.TTFTp95), Max: value(r.TTFBMax),
		FirstP50: value(r.FirstTurnTTFTp50), LaterP50: value(r.LaterTurnsTTFTp50),
		SessionP50: value(r.SessionP50), Cached: value(r.CachedShare),
		Failed: float64(r.TurnsFailed), NotFinished: float64(r.TurnsCut),
	}
}

func figuresOfSimulated(r ladder.Result) figures {
	return figures{
		SessionsPerHour: r.SessionsPerHour, TokensPerMinute: r.OutputPerMinute,
		P50: r.TTFB.P50, P95: r.TTFB.P95, Max: r.TTFB.Max, FirstP50: r.FirstTurns.P50, LaterP50: r.LaterTurns.P50,
		SessionP50: r.Session.P50, Cached: r.HitRate, NotFinished: float64(r.Unfinished),
	}
}

func value(v *float64) float64 {
	if v == nil {
		return math.NaN()
	}
	return *v
}

// sessions lists the loads that were measured, the lightest first.
func (r Report) sessions() []int {
	var out []int
	for _, c := range r.Cells {
		if !slices.Contains(out, c.Report.Sessions) {
			out = append(out, c.Report.Sessions)
		}
	}
	slices.Sort(out)
	return out
}

// median is an arm's figures under a load, each the median of its rounds.
func (r Report) median(arm string, sessions int) (f figures, rounds int) {
	var all []figures
	for _, c := range r.Cells {
		if c.Arm == arm && c.Report.Sessions == sessions {
			all = append(all, figuresOf(c.Report))
		}
	}
	middle := func(of func(figures) float64) float64 {
		var v []float64
		for _, x := range all {
			if y := of(x); !math.IsNaN(y) {
				v = append(v, y)
			}
		}
		if len(v) == 0 {
			return math.NaN()
		}
		slices.Sort(v)
		return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
	}
	return figures{
		SessionsPerHour: middle(func(f figures) float64 { return f.SessionsPerHour }),
		TokensPerMinute: middle(func(f figures) float64 { return f.TokensPerMinute }),
		P50:             middle(func(f figures) float64 { return f.P50 }),
		P95:             middle(func(f figures) float64 { return f.P95 }),
		Max:             middle(func(f figures) float64 { return f.Max }),
		FirstP50:        middle(func(f figures) float64 { return f.FirstP50 }),
		LaterP50:        middle(func(f figures) float64 { return f.LaterP50 }),
		SessionP50:      middle(func(f figures) float64 { return f.SessionP50 }),
		Cached:          middle(func(f figures) float64 { return f.Cached }),
		Failed:          middle(func(f figures) float64 { return f.Failed }),
		NotFinished:     middle(func(f figures) float64 { return f.NotFinished }),
	}, len(all)
}

// simulated is the same of the simulated cell, if there is one.
func (r Report) simulated(arm string, sessions int) (figures, bool) {
	for _, c := range r.Simulated {
		if c.Arm == arm && c.Sessions == sessions {
			return figuresOfSimulated(c.Result), true
		}
	}
	return figures{}, false
}

// noise is by how much two equal cells of a minute differ.
const noise = 0.15

// told is how much two simulated cells must differ to count as ordered: in
// virtual time there is no noise, only the chance of the seed.
const told = 0.02

// orders compares the order of the arms by tokens/min: of the pairs that differ
// by more than noise when measured, how many the simulated engine orders alike,
// which it cannot tell apart, and which it orders the other way.
func (r Report) orders(sessions int) (alike int, equal, other [][2]string) {
	for i, a := range r.Arms {
		for _, b := range r.Arms[i+1:] {
			x, _ := r.median(a, sessions)
			y, _ := r.median(b, sessions)
			sx, okx := r.simulated(a, sessions)
			sy, oky := r.simulated(b, sessions)
			measured := math.Log(x.TokensPerMinute / y.TokensPerMinute)
			if !okx || !oky || math.IsNaN(measured) || math.Abs(measured) < math.Log(1+noise) {
				continue
			}
			simulated := math.Log(sx.TokensPerMinute / sy.TokensPerMinute)
			switch {
			case math.Abs(simulated) < math.Log(1+told):
				equal = append(equal, [2]string{a, b})
			case (simulated > 0) != (measured > 0):
				other = append(other, [2]string{a, b})
			default:
				alike++
			}
		}
	}
	return alike, equal, other
}
