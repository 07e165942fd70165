package daemon

import (
	"context"
	"sync"
	"time"

	"github.com/lm-warden/warden/cmd/internal/clients"
	"github.com/lm-warden/warden/cmd/internal/load"
)

// demoGap is the mean pause between a session's turns: an agent runs its tools.
const demoGap = 2 * time.Second

// demoStagger is the pause between the starts of two sessions of one API.
const demoStagger = 500 * time.Millisecond

// playDemo is the load that `warden up --demo` puts on its own simulated
// replicas, through the address that clients use: sessions until ctx ends, half
// over each API, from when all replicas were ready once.
func (d *Daemon) playDemo(ctx context.Context) {
	if d.opts.DemoSessions < 1 || !waitUntil(ctx, d.allReady) {
		return
	}
	shape := load.Reference()
	shape.Gap = demoGap
	var wg sync.WaitGroup
	for i, api := range []string{"chat", "messages"} {
		sessions := (d.opts.DemoSessions + 1 - i) / 2
		if sessions == 0 {
			continue
		}
		wg.Go(func() {
			_, err := load.Run(ctx, load.Options{
				URL: clients.Reachable(d.url()), APIKey: d.front.OwnKey(), Client: d.front.Client(sessions),
				Model: d.models[0].Alias, API: api,
				Sessions: sessions, Shape: shape, Stagger: demoStagger, Seed: uint64(time.Now().UnixNano()) + uint64(i),
			})
			if err != nil && ctx.Err() == nil {
				d.log.Warn("demo load ended", "err", err)
			}
		})
	}
	wg.Wait()
}

// waitUntil asks ready ten times a second; false when ctx ends first.
func waitUntil(ctx context.Context, ready func() bool) bool {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for !ready() {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
	return true
}
