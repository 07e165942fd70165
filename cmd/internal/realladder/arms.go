package realladder

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lm-warden/warden/cmd/internal/ladder"
	"github.com/lm-warden/warden/cmd/internal/process"
	"github.com/lm-warden/warden/router/placement"
	"github.com/lm-warden/warden/supervisor"
)

// arm is one of the things compared.
type arm struct {
	name string
	// simulated is the policy of the simulated ladder that has the same rule;
	// "" where none has.
	simulated string
	// missing says why it cannot be measured here; "" if it can.
	missing func(*bed) string
	// start begins a cell: where to send the load, and what ends it.
	start func(context.Context, *bed) (url string, stop func(), err error)
}

// ours is the arm that is held against all others but its own variants.
const ours = "warden " + placement.PolicyAdmission

// overcommit is the setting whose trade-off is measured: at the knee it shortens the
// p95 and lengthens the p50.
const overcommit = 0.1

// ownName is vLLM's own balancer, --data-parallel-size.
const ownName = "vLLM's own"

// arms returns all that are known, ours first.
func arms() []arm {
	here := func(*bed) string { return "" }
	var all []arm
	for _, policy := range []struct {
		name, simulated string
		settings        map[string]any
	}{
		{ours, placement.PolicyAdmission, map[string]any{"affinity": placement.PolicyAdmission}},
		{
			fmt.Sprintf("%s, overcommit %.1f", ours, overcommit), ladder.Overcommitted(overcommit),
			map[string]any{"affinity": placement.PolicyAdmission, "admission": map[string]any{"overcommit": overcommit}},
		},
		{"warden " + placement.PolicyAffinity, placement.PolicyAffinity, map[string]any{"affinity": placement.PolicyAffinity}},
		{"warden " + placement.PolicyBalance, placement.PolicyBalance, map[string]any{"affinity": placement.PolicyBalance}},
	} {
		all = append(all, arm{
			name: policy.name, simulated: policy.simulated, missing: here,
			start: func(ctx context.Context, b *bed) (string, func(), error) {
				url, err := b.useWarden(ctx, policy.settings)
				return url, b.leaveWarden, err
			},
		})
	}
	own := arm{name: ownName, simulated: "dp-0.27", missing: here}
	own.start = func(ctx context.Context, b *bed) (string, func(), error) {
		err := b.startOwn(ctx)
		return b.ownURL, func() {}, err
	}
	return append(append(all, own), peers()...)
}

// chosen are the arms whose names are, or else contain, one of the words, or all.
func chosen(all []arm, words []string) ([]arm, error) {
	if len(words) == 0 {
		return all, nil
	}
	var out []arm
	used := map[string]bool{}
	exact := func(w string) bool { return slices.ContainsFunc(all, func(a arm) bool { return a.name == w }) }
	for _, a := range all {
		for _, w := range words {
			if a.name == w || !exact(w) && strings.Contains(a.name, w) {
				out = append(out, a)
				used[w] = true
				break
			}
		}
	}
	var names []string
	for _, a := range all {
		names = append(names, a.name)
	}
	for _, w := range words {
		if !used[w] {
			return nil, fmt.Errorf("no arm is called %q: there are %s", w, strings.Join(names, ", "))
		}
	}
	return out, nil
}

// startOwn starts `vllm serve --data-parallel-size 2` once; it stays for the
// whole run, since its start takes a minute, and does nothing while others are
// measured.
func (b *bed) startOwn(ctx context.Context) error {
	if b.own != nil {
		return nil
	}
	address, err := process.FreeAddress()
	if err != nil {
		return err
	}
	url := "http://" + address
	command, err := b.reader.Command(supervisor.Spec{
		ID: "own", Model: model, Repo: b.model(), ServedNames: []string{model}, Device: supervisor.DeviceCPU,
		CPUs: b.half(), Address: url, MaxNumSeqs: maxNumSeqs, Args: engineArgs(), Env: []string{engineEnv},
	})
	if err != nil {
		return err
	}
	p, err := process.Start(process.Command{
		Name: "own", Dir: b.dir, Env: command.Env,
		Argv: append(command.Argv, "--data-parallel-size", fmt.Sprint(replicas)),
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if err := p.Await(ctx, "was ready", process.Answers(b.client, url+"/health")); err != nil {
		p.Stop(time.Second)
		return err
	}
	b.own, b.ownURL = p, url
	return nil
}
