package router

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lm-warden/warden/router/deployment"
	"github.com/lm-warden/warden/router/placement"
)

// Replica is what the supervisor knows about one replica.
type Replica = deployment.Replica

// SetReplicas replaces the replicas of a model. Until its first call requests
// are held as for replicas that start. It refuses unknown models and ids given
// twice.
func (r *Router) SetReplicas(model string, replicas []Replica) error {
	d := r.models.Load().alias(model)
	if d == nil {
		return fmt.Errorf("no model %q to set replicas of", model)
	}
	seen := make(map[ReplicaID]bool, len(replicas))
	for _, facts := range replicas {
		if seen[facts.ID] {
			return fmt.Errorf("model %q: replica %q is given twice", model, facts.ID)
		}
		seen[facts.ID] = true
	}
	d.SetReplicas(replicas)
	return nil
}

// SetStats brings numbers scraped from a replica's engine. Unknown replicas
// are ignored: they come and go.
func (r *Router) SetStats(model string, id ReplicaID, view EngineView) {
	if d := r.models.Load().alias(model); d != nil {
		d.SetStats(id, view)
	}
}

// Work returns warden's own count of turns placed on a replica and not ended,
// and when data of an answer last came from it (zero: never). Comments that
// only keep a connection open are no data.
func (r *Router) Work(id ReplicaID) (held int, lastByte time.Time) {
	for _, d := range r.models.Load().deployments {
		if held, lastByte, known := d.Work(id); known {
			return held, lastByte
		}
	}
	return 0, time.Time{}
}

// SetAffinity turns conversation affinity of a model on or off, live, and
// returns the policy before and after. "" means the only model.
func (r *Router) SetAffinity(model string, on bool) (before, after string, err error) {
	d, err := r.models.Load().toChange(model)
	if err != nil {
		return "", "", err
	}
	before, after = d.SetAffinity(on)
	return before, after, nil
}

// SetPolicy gives a model the placement policy of that name, live, and returns
// the one before. If it keeps conversations where they are, "on" means it from
// now on.
func (r *Router) SetPolicy(model, policy string) (before string, err error) {
	if !slices.Contains(placement.Policies(), policy) {
		return "", fmt.Errorf("policy %q is not one of %s", policy, strings.Join(placement.Policies(), ", "))
	}
	d, err := r.models.Load().toChange(model)
	if err != nil {
		return "", err
	}
	return d.SetPolicy(policy), nil
}

// SetSpillLimit changes the spill limit of a model, live; 0 is a quarter of
// each replica's max-num-seqs.
func (r *Router) SetSpillLimit(model string, limit int) (before int, err error) {
	if limit < 0 {
		return 0, fmt.Errorf("spill limit %d is negative; 0 means automatic", limit)
	}
	d, err := r.models.Load().toChange(model)
	if err != nil {
		return 0, err
	}
	return d.SetSpillLimit(limit), nil
}
