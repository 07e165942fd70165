package main

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/lm-warden/warden/cmd/internal/load"
	"github.com/lm-warden/warden/configs"
)

// demo is the load that `warden up --demo` puts on its own simulated replicas,
// through the address that clients use.
type demo struct {
	on       bool
	sessions int
}

func (a *app) demoOf(f *upFlags) demo { return demo{on: f.demo, sessions: f.demoLoad} }

// demoGap is the mean pause between a session's turns: an agent runs its tools.
const demoGap = 2 * time.Second

// run plays sessions until ctx ends, half over each API. Requests sent before a
// replica is ready wait at the router.
func (d demo) run(ctx context.Context, cfg configs.Config, models []plannedModel, log *slog.Logger) {
	if !d.on || d.sessions < 1 {
		return
	}
	shape := load.Reference()
	shape.Gap = demoGap
	var wg sync.WaitGroup
	for i, api := range []string{"chat", "messages"} {
		sessions := (d.sessions + 1 - i) / 2
		if sessions == 0 {
			continue
		}
		wg.Go(func() {
			_, err := load.Run(ctx, load.Options{
				URL: "http://" + cfg.Listen, Model: models[0].Alias, API: api,
				Sessions: sessions, Shape: shape, Seed: uint64(time.Now().UnixNano()) + uint64(i),
			})
			if err != nil && ctx.Err() == nil {
				log.Warn("demo load ended", "err", err)
			}
		})
	}
	wg.Wait()
}
