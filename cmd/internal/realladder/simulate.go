package realladder

import (
	"time"

	"github.com/lm-warden/warden/cmd/internal/ladder"
	"github.com/lm-warden/warden/cmd/internal/load"
	"github.com/lm-warden/warden/supervisor/simengine/core"
)

// simulatedProfile is the profile of these engines.
const simulatedProfile = "cpu-heavy"

// Scale is what all lengths are divided by: with them the machine is a small
// copy of the reference machine, run four to five times as fast.
const Scale = 4

// shape is the load of all cells.
func shape() load.Shape {
	s := load.Reference().Scaled(Scale)
	s.MaxOutput = outputMax
	return s
}

// simulate plays a cell in virtual time. Like the measured ones it begins with
// cold caches and counts from its first second.
func simulate(r Rates, policy string, sessions int, length time.Duration, seed uint64) (ladder.Result, error) {
	profile, err := core.FindProfile(simulatedProfile)
	if err != nil {
		return ladder.Result{}, err
	}
	cost, err := r.cost()
	if err != nil {
		return ladder.Result{}, err
	}
	var fleet ladder.Fleet
	for range replicas {
		fleet.Engines = append(fleet.Engines, core.Config{
			BlockSize: profile.BlockSize, Blocks: profile.Blocks, MaxNumSeqs: maxNumSeqs, Cost: cost,
		})
	}
	s := shape()
	return ladder.PlayNamed(ladder.Run{
		Work: ladder.Workload{
			Name: "a quarter of the reference", Sessions: sessions, Turns: s.Turns, Shared: s.System,
			First: s.First, Next: s.Next, OutputMin: outputMin, OutputMax: outputMax,
		},
		Fleet: fleet, Seed: seed, Length: length,
	}, policy)
}
