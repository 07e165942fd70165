package router

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lm-warden/warden/router/link"
	"github.com/lm-warden/warden/router/placement"
)

// Replica is what the supervisor knows about one replica.
type Replica struct {
	ID ReplicaID
	// Generation counts process starts; a change means another process with
	// an empty cache.
	Generation uint64
	// Address is unix:/path or http://host:port.
	Address string
	// Accepting: may be given turns. Suspect: keeps its conversations and gets
	// no new ones. Starting: does not accept yet but will without anybody's
	// help; requests are held for it.
	Accepting, Suspect, Starting bool
	// 0 where not known.
	MaxNumSeqs, KVCapacityTokens, HostKVTokens, MaxModelLen int
}

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
	d.setReplicas(replicas)
	return nil
}

// SetStats brings numbers scraped from a replica's engine. Unknown replicas
// are ignored: they come and go.
func (r *Router) SetStats(model string, id ReplicaID, view EngineView) {
	d := r.models.Load().alias(model)
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.unlock()
	d.step(placement.Stats{Replica: id, Engine: view})
}

// Work returns warden's own count of turns placed on a replica and not ended,
// and when data of an answer last came from it (zero: never). Comments that
// only keep a connection open are no data.
func (r *Router) Work(id ReplicaID) (held int, lastByte time.Time) {
	for _, d := range r.models.Load().deployments {
		d.mu.Lock()
		u := d.upstreams[id]
		d.unlock()
		if u == nil {
			continue
		}
		if ns := u.lastByte.Load(); ns > 0 {
			lastByte = time.Unix(0, ns)
		}
		return int(u.held.Load()), lastByte
	}
	return 0, time.Time{}
}

// SetAffinity turns conversation affinity of a model on or off, live, and
// returns the policy before and after. "" means the only model.
func (r *Router) SetAffinity(model string, on bool) (before, after string, err error) {
	err = r.change(model, func(d *deployment) {
		before = d.placer.ViewLatest(time.Now(), 0).Policy
		after = placement.PolicyBalance
		if on {
			after = d.affine
		}
		d.model.Placement.Policy = after
		word := map[bool]string{true: "on", false: "off"}[on]
		d.tell("affinity", "", "affinity turned "+word, map[string]string{"before": before, "after": after})
	})
	return before, after, err
}

// SetPolicy gives a model the placement policy of that name, live, and returns
// the one before. If it keeps conversations where they are, "on" means it from
// now on.
func (r *Router) SetPolicy(model, policy string) (before string, err error) {
	if !slices.Contains(placement.Policies(), policy) {
		return "", fmt.Errorf("policy %q is not one of %s", policy, strings.Join(placement.Policies(), ", "))
	}
	err = r.change(model, func(d *deployment) {
		before = d.placer.ViewLatest(time.Now(), 0).Policy
		d.model.Placement.Policy = policy
		if policy != placement.PolicyBalance {
			d.affine = policy
		}
		d.tell("affinity", "", "placement policy is "+policy, map[string]string{"before": before, "after": policy})
	})
	return before, err
}

// SetSpillLimit changes the spill limit of a model, live; 0 is a quarter of
// each replica's max-num-seqs.
func (r *Router) SetSpillLimit(model string, limit int) (before int, err error) {
	if limit < 0 {
		return 0, fmt.Errorf("spill limit %d is negative; 0 means automatic", limit)
	}
	err = r.change(model, func(d *deployment) {
		before = d.model.Placement.SpillLimit
		d.model.Placement.SpillLimit = limit
		text := fmt.Sprintf("spill limit set to %d", limit)
		if limit == 0 {
			text = "spill limit set to automatic"
		}
		d.tell("affinity", "", text, map[string]string{"spill_limit": fmt.Sprint(limit)})
	})
	return before, err
}

// change edits a model's placement settings under its lock.
func (r *Router) change(model string, edit func(*deployment)) error {
	c := r.models.Load()
	d, _, refused := c.find(model, true)
	if refused != nil && model == "" && len(c.deployments) == 1 {
		d, refused = c.deployments[0], nil
	}
	if refused != nil {
		return fmt.Errorf("%s", refused.Message)
	}
	d.mu.Lock()
	defer d.unlock()
	edit(d)
	d.step(placement.Configure{Config: d.model.Placement})
	return nil
}

func (d *deployment) setReplicas(replicas []Replica) {
	d.mu.Lock()
	defer d.unlock()
	next := make(map[ReplicaID]*upstream, len(replicas))
	for _, facts := range replicas {
		u := d.upstreams[facts.ID]
		if u == nil || u.generation != facts.Generation || u.facts.Address != facts.Address {
			u = newUpstream(facts, d.router.opts.Dial, &d.router.pieces)
			d.router.metrics.Replica(d.alias, facts.ID)
		}
		u.facts = facts
		next[facts.ID] = u
	}
	for id, u := range d.upstreams {
		if next[id] != u {
			u.retire()
		}
	}
	d.upstreams, d.known = next, true
	d.tellPlacer()
	d.refuseHopeless()
}

// tellPlacer passes the replicas on to placement, without those that could not
// be connected to a moment ago.
func (d *deployment) tellPlacer() {
	set := make([]placement.Replica, 0, len(d.upstreams))
	for _, u := range d.upstreams {
		f := u.facts
		set = append(set, placement.Replica{
			ID: f.ID, Generation: f.Generation, Accepting: f.Accepting && !u.paused, Suspect: f.Suspect,
			MaxNumSeqs: f.MaxNumSeqs, KVCapacityTokens: f.KVCapacityTokens, HostKVTokens: f.HostKVTokens,
		})
	}
	d.step(placement.Replicas{Replicas: set})
}

// connectPause is how long a replica that refused a connection gets no turns,
// unless the supervisor reports another process before. A dead process is
// reported within milliseconds; this keeps the turns of those milliseconds,
// and of a supervisor that is late, from trying it one by one.
const connectPause = time.Second

// failed reports a broken replica to the supervisor and, when not even a
// connection could be made, takes it out of placement for a moment.
func (d *deployment) failed(u *upstream, err error) {
	d.router.opts.OnFailure(u.id, u.generation, err)
	if !link.NotConnected(err) {
		return
	}
	d.mu.Lock()
	defer d.unlock()
	if u.paused || d.closed || d.upstreams[u.id] != u {
		return
	}
	u.paused = true
	u.resume = time.AfterFunc(connectPause, func() { d.resume(u) })
	d.tellPlacer()
}

func (d *deployment) resume(u *upstream) {
	d.mu.Lock()
	defer d.unlock()
	if d.closed || d.upstreams[u.id] != u {
		return
	}
	u.paused = false
	d.tellPlacer()
}

// retire releases what an upstream holds beside its requests in flight.
func (u *upstream) retire() {
	if u.resume != nil {
		u.resume.Stop()
	}
	u.link.Close()
}

// readiness counts the replicas that accept turns.
func (d *deployment) readiness() (ready, total int) {
	d.mu.Lock()
	defer d.unlock()
	for _, u := range d.upstreams {
		if u.facts.Accepting {
			ready++
		}
	}
	return ready, len(d.upstreams)
}
