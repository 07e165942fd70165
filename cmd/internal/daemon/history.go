package daemon

import (
	"context"
	"time"

	"github.com/lm-warden/warden/cmd/internal/advise"
	"github.com/lm-warden/warden/router"
	"github.com/lm-warden/warden/supervisor"
	"github.com/lm-warden/warden/supervisor/control"
)

// maxRememberedSessions bounds a look: the latest seen of a model. More are not
// seen within the few seconds between two looks.
const maxRememberedSessions = 1000

// remember looks at all models until ctx ends; `warden advise` asks for what it
// has seen.
func (d *Daemon) remember(ctx context.Context) {
	tick := time.NewTicker(advise.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			d.recorder.Add(now, looks(d.router.Snapshot(maxRememberedSessions), d.sup.Snapshot()))
		}
	}
}

// History is the last hour of each model.
func (d *Daemon) History() control.History { return d.recorder.History(time.Now()) }

// looks puts the router's and the supervisor's view of each replica side by side.
func looks(routed router.Snapshot, replicas []supervisor.Replica) []advise.Look {
	var out []advise.Look
	for _, m := range routed.Models {
		look := advise.Look{Alias: m.Alias, Queued: len(m.Queue)}
		for _, s := range m.Sessions {
			look.Talks = append(look.Talks, advise.Talk{Key: s.Key, Seen: s.LastSeen, Busy: s.State != "idle", Tokens: s.Tokens})
		}
		for _, r := range replicas {
			if r.Model == m.Alias {
				look.Replicas = append(look.Replicas, replicaLook(r, m.Replicas))
			}
		}
		out = append(out, look)
	}
	return out
}

func replicaLook(r supervisor.Replica, routed []router.ReplicaSnapshot) advise.ReplicaLook {
	s := r.Stats
	look := advise.ReplicaLook{
		ID: string(r.ID), Generation: r.Generation, Ready: r.State.Accepting(),
		Capacity: s.KVCapacityTokens, Waiting: s.Waiting,
		Counted: !s.At.IsZero(),
		Counters: advise.Counters{
			Queried: s.PrefixQueries, Hits: s.PrefixHits + s.ExternalHits,
			HostQueried: s.ExternalQueries, HostHits: s.ExternalHits, Preemptions: s.Preemptions,
		},
	}
	for _, p := range routed {
		if string(p.ID) == look.ID {
			look.Sessions, look.Need, look.Held = p.Recent, p.RecentTokens, p.Held
		}
	}
	return look
}
