package realladder

import (
	"time"

	"github.com/lm-warden/warden/cmd/internal/ladder"
	"github.com/lm-warden/warden/cmd/internal/load"
	"github.com/lm-warden/warden/router/placement"
	"github.com/lm-warden/warden/supervisor/simengine/core"
	"github.com/lm-warden/warden/supervisor/vllm/tiny"
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

// wholeWord is what the load's texts are longer than asked for, in tokens and on
// average: they end with a whole word.
const wholeWord = 3

// simulate plays a cell in virtual time. Like the measured ones it begins with
// cold caches and counts from its first second.
func simulate(r Rates, policy string, sessions int, length time.Duration, seed uint64) (ladder.Result, error) {
	return play(r, policy, sessions, length, seed, 1)
}

// endless is a KV cache so many times as large that nothing is ever evicted.
const endless = 50

// bound plays a cell on engines whose KV cache is endless: every prompt is computed
// once and no session waits. What policies make of smaller caches stays below it, as
// far as the simulation is right.
func bound(r Rates, sessions int, length time.Duration, seed uint64) (ladder.Result, error) {
	return play(r, placement.PolicyAffinity, sessions, length, seed, endless)
}

func play(r Rates, policy string, sessions int, length time.Duration, seed uint64, times int) (ladder.Result, error) {
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
			BlockSize: profile.BlockSize, Blocks: profile.Blocks * times, MaxNumSeqs: maxNumSeqs, Cost: cost,
		})
	}
	run := ladder.Run{Work: workload(sessions), Fleet: fleet, Seed: seed, Length: length}
	p, err := ladder.NewPolicy(policy, run)
	if err != nil {
		return ladder.Result{}, err
	}
	result, err := ladder.Play(run, newGauges(p, run.Work.Shared, scrapes(policy)))
	result.Policy = policy
	return result, err
}

// workload is the load of all cells with the lengths that the engines count: the
// chat template adds to them.
func workload(sessions int) ladder.Workload {
	s := shape()
	return ladder.Workload{
		Name: "a quarter of the reference", Sessions: sessions, Turns: s.Turns, OutputMin: outputMin, OutputMax: outputMax,
		Shared: s.System + wholeWord + tiny.MessageTokens("system"),
		First:  s.First + wholeWord + tiny.MessageTokens("user") + tiny.PromptTokens,
		Next:   s.Next + wholeWord + tiny.MessageTokens("assistant") + tiny.MessageTokens("user"),
	}
}
