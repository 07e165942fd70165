package router

import (
	"time"

	"github.com/lm-warden/warden/router/breaks"
	"github.com/lm-warden/warden/router/deployment"
	"github.com/lm-warden/warden/router/figures"
	"github.com/lm-warden/warden/router/window"
)

// Figures of a replica, and quantiles, as they stand in snapshots.
type (
	Tokens    = figures.Tokens
	Quantiles = figures.Quantiles
	Break     = breaks.Found
)

// What snapshots consist of.
type (
	ModelSnapshot   = deployment.Snapshot
	ReplicaSnapshot = deployment.ReplicaSnapshot
	SessionSnapshot = deployment.SessionSnapshot
	QueuedTurn      = deployment.QueuedTurn
)

// Snapshot is a copy of the Router's state at one time.
type Snapshot struct {
	At     time.Time
	Models []ModelSnapshot
	TTFT   Quantiles // over all models: quantiles cannot be added up later
}

// Snapshot copies the state, with at most maxSessions conversations a model.
func (r *Router) Snapshot(maxSessions int) Snapshot {
	s := Snapshot{At: time.Now()}
	var all window.Histogram
	for _, d := range r.models.Load().deployments {
		m, ttft := d.Snapshot(s.At, maxSessions)
		s.Models = append(s.Models, m)
		all.Merge(&ttft)
	}
	s.TTFT = figures.QuantilesOf(&all)
	return s
}
