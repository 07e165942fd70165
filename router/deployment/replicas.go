package deployment

import (
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

// SetReplicas replaces the replicas, whose ids are all different. Until its first
// call requests are held as for replicas that start.
func (d *Deployment) SetReplicas(replicas []Replica) {
	d.mu.Lock()
	defer d.unlock()
	next := make(map[ReplicaID]*Upstream, len(replicas))
	for _, facts := range replicas {
		u := d.upstreams[facts.ID]
		if u == nil || u.Generation != facts.Generation || u.facts.Address != facts.Address {
			u = newUpstream(facts, d.opts.Dial, d.opts.Buffers)
			d.opts.Metrics.Replica(d.Alias, facts.ID)
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
func (d *Deployment) tellPlacer() {
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

// ConnectPause is how long a replica that refused a connection gets no turns,
// unless the supervisor reports another process before. A dead process is
// reported within milliseconds; this keeps the turns of those milliseconds,
// and of a supervisor that is late, from trying it one by one.
const ConnectPause = time.Second

// failed reports a broken replica and, when not even a connection could be made,
// takes it out of placement for a moment.
func (d *Deployment) failed(u *Upstream, err error) {
	d.opts.OnFailure(u.ID, u.Generation, err)
	if !link.NotConnected(err) {
		return
	}
	d.mu.Lock()
	defer d.unlock()
	if u.paused || d.closed || d.upstreams[u.ID] != u {
		return
	}
	u.paused = true
	u.resume = time.AfterFunc(ConnectPause, func() { d.resume(u) })
	d.tellPlacer()
}

func (d *Deployment) resume(u *Upstream) {
	d.mu.Lock()
	defer d.unlock()
	if d.closed || d.upstreams[u.ID] != u {
		return
	}
	u.paused = false
	d.tellPlacer()
}

// Readiness counts the replicas that accept turns.
func (d *Deployment) Readiness() (ready, total int) {
	d.mu.Lock()
	defer d.unlock()
	for _, u := range d.upstreams {
		if u.facts.Accepting {
			ready++
		}
	}
	return ready, len(d.upstreams)
}

// MaxModelLen is the longest prompt with its answer that all replicas take, in
// tokens; 0 where none says.
func (d *Deployment) MaxModelLen() int {
	d.mu.Lock()
	defer d.unlock()
	least := 0
	for _, u := range d.upstreams {
		if n := u.facts.MaxModelLen; n > 0 && (least == 0 || n < least) {
			least = n
		}
	}
	return least
}

// SetStats brings numbers scraped from a replica's engine. Unknown replicas
// are ignored: they come and go.
func (d *Deployment) SetStats(id ReplicaID, view placement.EngineView) {
	d.mu.Lock()
	defer d.unlock()
	d.step(placement.Stats{Replica: id, Engine: view})
}

// Work returns the turns placed on a replica and not ended, and when data of an
// answer last came from it (zero: never); known is false where there is none
// of that id.
func (d *Deployment) Work(id ReplicaID) (held int, lastByte time.Time, known bool) {
	d.mu.Lock()
	u := d.upstreams[id]
	d.unlock()
	if u == nil {
		return 0, time.Time{}, false
	}
	return int(u.held.Load()), u.latest(), true
}
