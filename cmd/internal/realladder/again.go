package realladder

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Again puts the reports of several runs together, which must be of the same
// arms, load and machine, and plays their simulated cells anew: with the rates of
// all of them, and with what the simulation has learned since.
func Again(reports []Report, seed uint64) (Report, error) {
	if len(reports) == 0 {
		return Report{}, errors.New("no report to begin with")
	}
	whole := reports[0]
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
			played, err := simulate(rates, a.simulated, sessions, length, seed)
			if err != nil {
				return err
			}
			r.Simulated = append(r.Simulated, SimulatedCell{Arm: a.name, Result: played})
		}
	}
	for _, sessions := range r.sessions() {
		most, err := bound(rates, sessions, length, seed)
		if err != nil {
			return err
		}
		r.Bounds = append(r.Bounds, SimulatedCell{Arm: "endless KV cache", Result: most})
	}
	return nil
}
