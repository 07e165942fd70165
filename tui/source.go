package tui

import (
	"context"
	"iter"

	"github.com/lm-warden/warden/supervisor/control"
)

// Source is the daemon as the screen sees it.
type Source interface {
	// Watch yields a snapshot, then what happens; it ends when the daemon goes away or ctx ends.
	Watch(ctx context.Context) iter.Seq2[control.Message, error]
	Logs(ctx context.Context, q control.LogQuery) iter.Seq2[control.LogLine, error]
	SetAffinity(ctx context.Context, model string, on bool) (control.AffinityChange, error)
	Replica(ctx context.Context, id string, action control.ReplicaAction) (control.Accepted, error)
}

var _ Source = (*control.Client)(nil)
