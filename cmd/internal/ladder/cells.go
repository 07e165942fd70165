package ladder

import (
	"fmt"
	"time"

	"github.com/lm-warden/warden/cmd/internal/ladder/rivals"
	"github.com/lm-warden/warden/router/placement"
	"github.com/lm-warden/warden/supervisor/simengine/core"
)

// ReferenceProfile is the machine of the reference measurement.
const ReferenceProfile = "a4000-qwen3-4b"

// Replicas of the reference machine, and vLLM's batch limit there.
const (
	referenceReplicas   = 4
	referenceMaxNumSeqs = 32
)

// ReferenceFleet is the reference machine: four GPUs with that profile.
func ReferenceFleet() (Fleet, error) {
	p, err := core.FindProfile(ReferenceProfile)
	if err != nil {
		return Fleet{}, err
	}
	var f Fleet
	for range referenceReplicas {
		f.Engines = append(f.Engines, core.Config{
			BlockSize: p.BlockSize, Blocks: p.Blocks, MaxNumSeqs: referenceMaxNumSeqs, Cost: p.Cost,
		})
	}
	return f, nil
}

// WithKV gives each engine a KV cache of so many tokens.
func (f Fleet) WithKV(tokens int) Fleet {
	return f.each(func(_ int, e *core.Config) { e.Blocks = tokens/e.BlockSize + 1 })
}

// each returns a copy of f with every engine changed.
func (f Fleet) each(change func(int, *core.Config)) Fleet {
	out := f
	out.Engines = append([]core.Config(nil), f.Engines...)
	for i := range out.Engines {
		change(i, &out.Engines[i])
	}
	return out
}

// WithHost gives each engine a second tier of so many GiB of host memory.
func (f Fleet) WithHost(gib int) (Fleet, error) {
	p, err := core.FindProfile(ReferenceProfile)
	if err != nil {
		return Fleet{}, err
	}
	return f.each(func(_ int, e *core.Config) {
		e.Host = core.Host{
			Tokens:          gib << 30 / p.TokenBytes,
			TokensPerSecond: p.HostBytesPerSecond / float64(p.TokenBytes),
		}
	}), nil
}

// WithSlow makes the first engine that much slower: 0.12 is 12 %.
func (f Fleet) WithSlow(by float64) Fleet {
	return f.each(func(i int, e *core.Config) {
		if i == 0 {
			e.Cost = e.Cost.Scaled(1 - by)
		}
	})
}

// WithDeath kills the first engine at that time of the run, so long.
func (f Fleet) WithDeath(at, down time.Duration) Fleet {
	f.DieAt, f.DownFor = at, down
	return f
}

// Policies returns the names of ours, then of the rivals.
func Policies() []string {
	names := ourPolicies()
	for _, r := range rivals.All() {
		names = append(names, r.Name)
	}
	return names
}

// NewPolicy makes a policy for a run.
func NewPolicy(name string, r Run) (Policy, error) {
	switch name {
	case placement.PolicyAdmission, placement.PolicyAffinity, placement.PolicyBalance:
		return placement.New(placement.Config{Policy: name, Seed: r.Seed}), nil
	}
	for _, k := range knobs() {
		if k.name == name {
			return placement.New(placement.Config{Policy: placement.PolicyAdmission, Admission: k.config, Seed: r.Seed}), nil
		}
	}
	p, err := rivals.New(name, rivals.Info{
		Shared: map[uint64]int{mainRoot: r.Work.Shared, subRoot: r.Work.SubShared},
		Seed:   r.Seed,
	})
	if err != nil {
		return nil, fmt.Errorf("no policy is called %q: use one of %v", name, Policies())
	}
	return p, nil
}

// PlayNamed runs one cell with the policy of that name.
func PlayNamed(r Run, policy string) (Result, error) {
	p, err := NewPolicy(policy, r)
	if err != nil {
		return Result{}, err
	}
	res, err := Play(r, p)
	res.Policy = policy
	return res, err
}
