package realladder

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/lm-warden/warden/cmd/internal/ladder"
)

// Again puts the reports of several runs together, which must be of the same
// arms, load and machine, and plays their simulated cells anew: each load with the
// rates of the runs that measured it, since a shared machine is not as fast in one
// hour as in the next, and with what the simulation has learned since. Reports
// without cells give the others what those did not measure: the cost of a cached
// token.
func Again(reports []Report, seed uint64) (Report, error) {
	if len(reports) == 0 {
		return Report{}, errors.New("no report to begin with")
	}
	runs, rates := divide(reports)
	if len(runs) == 0 {
		return reports[0], errors.New("no report has a measured cell: is it a ladder-vllm.json?")
	}
	var whole Report
	for i, r := range runs {
		if i == 0 {
			whole = r
			whole.Cells, whole.Rates = nil, nil
		} else if err := alike(whole, r); err != nil {
			return whole, err
		} else {
			whole.Further = append(append(whole.Further, r.Started), r.Further...)
		}
		whole.Machine.LoadBefore = max(whole.Machine.LoadBefore, r.Machine.LoadBefore)
		whole.Cells = append(whole.Cells, r.Cells...)
		for _, measured := range r.Rates {
			if len(measured.Loads) == 0 {
				measured.Loads = r.sessions()
			}
			if measured.Cached == 0 {
				measured.Cached = rates.Cached
			}
			whole.Rates = append(whole.Rates, measured)
		}
	}
	for _, r := range reports {
		if len(r.Cells) == 0 && (r.Machine.CPU != whole.Machine.CPU || r.Machine.Versions["vllm"] != whole.Machine.Versions["vllm"]) {
			return whole, fmt.Errorf("the rates of %v and the run of %v are of different machines or versions", r.Started, whole.Started)
		}
	}
	return whole, whole.simulate(seed)
}

// divide parts runs from measurements of nothing but rates, and says what those
// are.
func divide(reports []Report) (runs []Report, rates Rates) {
	var all []Rates
	for _, r := range reports {
		if len(r.Cells) > 0 {
			runs = append(runs, r)
		} else {
			all = append(all, r.Rates...)
		}
	}
	return runs, mean(all)
}

// alike says why two runs do not belong into one report; nil if they do.
func alike(a, b Report) error {
	switch {
	case !slices.Equal(a.Arms, b.Arms):
		return fmt.Errorf("the runs of %v and %v compare different arms", a.Started, b.Started)
	case a.Shape != b.Shape || a.Scale != b.Scale || a.Seconds != b.Seconds:
		return fmt.Errorf("the runs of %v and %v have different loads", a.Started, b.Started)
	case a.Machine.CPU != b.Machine.CPU || !slices.Equal(a.Machine.Cores, b.Machine.Cores) ||
		!maps.Equal(a.Machine.Versions, b.Machine.Versions):
		return fmt.Errorf("the runs of %v and %v were on different machines or versions", a.Started, b.Started)
	}
	return nil
}

// ratesFor are the rates of the runs that measured that load, or of all.
func (r *Report) ratesFor(sessions int) Rates {
	var own []Rates
	for _, x := range r.Rates {
		if slices.Contains(x.Loads, sessions) {
			own = append(own, x)
		}
	}
	if len(own) == 0 {
		own = r.Rates
	}
	return mean(own)
}

// simulate plays all cells in virtual time.
func (r *Report) simulate(seed uint64) error {
	r.Simulated, r.Bounds, r.TradeOffs = nil, nil, nil
	length := time.Duration(r.Seconds * float64(time.Second))
	for _, a := range arms() {
		if a.simulated == "" || !slices.Contains(r.Arms, a.name) {
			continue
		}
		for _, sessions := range r.sessions() {
			played, err := middle(func(seed uint64) (ladder.Result, error) {
				return simulate(r.ratesFor(sessions), a.simulated, sessions, length, seed)
			}, seed)
			if err != nil {
				return err
			}
			r.Simulated = append(r.Simulated, SimulatedCell{Arm: a.name, Result: played})
		}
	}
	for _, sessions := range r.sessions() {
		most, err := middle(func(seed uint64) (ladder.Result, error) {
			return bound(r.ratesFor(sessions), sessions, length, seed)
		}, seed)
		if err != nil {
			return err
		}
		r.Bounds = append(r.Bounds, SimulatedCell{Arm: "endless KV cache", Result: most})
		for _, policy := range ladder.Overcommits() {
			played, err := middle(func(seed uint64) (ladder.Result, error) {
				return simulate(r.ratesFor(sessions), policy, sessions, length, seed)
			}, seed)
			if err != nil {
				return err
			}
			r.TradeOffs = append(r.TradeOffs, SimulatedCell{Arm: policy, Result: played})
		}
	}
	return nil
}

// seeds is how many times a cell is played in virtual time: of some policies one
// cell says little. SMG's tokens/min at 8 sessions differ by a factor of two.
const seeds = 27

// middle plays a cell with several seeds and returns the play whose tokens/min are
// the median.
func middle(play func(seed uint64) (ladder.Result, error), seed uint64) (ladder.Result, error) {
	var all []ladder.Result
	for i := range uint64(seeds) {
		r, err := play(seed + i)
		if err != nil {
			return r, err
		}
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b ladder.Result) int { return cmp.Compare(a.OutputPerMinute, b.OutputPerMinute) })
	return all[seeds/2], nil
}
