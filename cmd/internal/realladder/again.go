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
// arms, load and machine, and plays their simulated cells anew: with the rates of
// all of them, and with what the simulation has learned since.
func Again(reports []Report, seed uint64) (Report, error) {
	if len(reports) == 0 {
		return Report{}, errors.New("no report to begin with")
	}
	whole := reports[0]
	for _, r := range reports {
		if len(r.Cells) == 0 {
			return whole, errors.New("a report has no measured cell: is it a ladder-vllm.json?")
		}
	}
	for _, r := range reports[1:] {
		switch {
		case !slices.Equal(r.Arms, whole.Arms):
			return whole, fmt.Errorf("the runs of %v and %v compare different arms", whole.Started, r.Started)
		case r.Shape != whole.Shape || r.Scale != whole.Scale || r.Seconds != whole.Seconds:
			return whole, fmt.Errorf("the runs of %v and %v have different loads", whole.Started, r.Started)
		case r.Machine.CPU != whole.Machine.CPU || !slices.Equal(r.Machine.Cores, whole.Machine.Cores) ||
			!maps.Equal(r.Machine.Versions, whole.Machine.Versions):
			return whole, fmt.Errorf("the runs of %v and %v were on different machines or versions", whole.Started, r.Started)
		}
		whole.Further = append(append(whole.Further, r.Started), r.Further...)
		whole.Machine.LoadBefore = max(whole.Machine.LoadBefore, r.Machine.LoadBefore)
		whole.Cells = append(whole.Cells, r.Cells...)
		whole.Rates = append(whole.Rates, r.Rates...)
	}
	return whole, whole.simulate(seed)
}

// simulate plays all cells in virtual time, with the rates of the whole run.
func (r *Report) simulate(seed uint64) error {
	r.Simulated, r.Bounds = nil, nil
	rates, length := mean(r.Rates), time.Duration(r.Seconds*float64(time.Second))
	for _, a := range arms() {
		if a.simulated == "" || !slices.Contains(r.Arms, a.name) {
			continue
		}
		for _, sessions := range r.sessions() {
			played, err := middle(func(seed uint64) (ladder.Result, error) {
				return simulate(rates, a.simulated, sessions, length, seed)
			}, seed)
			if err != nil {
				return err
			}
			r.Simulated = append(r.Simulated, SimulatedCell{Arm: a.name, Result: played})
		}
	}
	for _, sessions := range r.sessions() {
		most, err := middle(func(seed uint64) (ladder.Result, error) {
			return bound(rates, sessions, length, seed)
		}, seed)
		if err != nil {
			return err
		}
		r.Bounds = append(r.Bounds, SimulatedCell{Arm: "endless KV cache", Result: most})
	}
	return nil
}

// seeds is how many times a cell is played in virtual time: of some policies one
// cell says little. SMG's tokens/min at 8 sessions differ by a factor of two.
const seeds = 9

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
