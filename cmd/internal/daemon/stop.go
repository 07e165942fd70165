package daemon

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/lm-warden/warden/cmd/internal/conns"
	"github.com/lm-warden/warden/cmd/internal/words"
	"github.com/lm-warden/warden/supervisor/events"
)

// lastWordsLimit is for the last bytes of answers to leave: a turn ends for the
// router a moment before its client has been told so.
const lastWordsLimit = time.Second

// shutDown stops the parts in order: requests, engines, then who watches.
func (d *Daemon) shutDown(server *http.Server, open *conns.Open, cancel context.CancelFunc) {
	drainCtx, done := context.WithTimeout(context.Background(), d.drain)
	defer done()
	go func() {
		select {
		case <-d.killed:
			done()
		case <-drainCtx.Done():
		}
	}()
	d.service.Stopping()
	d.log.Info("stopping", "held", d.Held(), "drain", d.drain)
	d.bus.Publish(events.Event{Kind: "stopping", Text: fmt.Sprintf("stopping: %s held, up to %s to finish", words.Count(d.Held(), "request", "requests"), d.drain)})
	if err := d.router.Drain(drainCtx); err != nil && d.Held() > 0 {
		d.log.Warn("requests cut at the stop", "held", d.Held())
	}
	d.before.drain(drainCtx)
	lastWords, spoken := context.WithTimeout(drainCtx, lastWordsLimit)
	hurry := make(chan struct{})
	close(hurry) // nobody waits for idle connections
	open.Wait(lastWords, hurry)
	spoken()
	_ = server.Close() // what is still open was given its time
	d.router.Cut()     // before the engines end, so that they are not blamed
	d.sup.Shutdown(0)
	d.awaitEngines()
	cancel()
	d.router.Close()
	if err := d.gpus.Close(); err != nil {
		d.log.Warn("the GPU reader did not end well", "err", err)
	}
	d.control.Close() // last: watchers see the stop to its end
}

// killGrace is what engines get to end by themselves after an order to kill: those that can leave nothing in shared
// memory then.
const killGrace = 2 * time.Second

// awaitEngines returns when the engines have ended. After an order to kill, also one that comes meanwhile, those that
// do not end soon are killed.
func (d *Daemon) awaitEngines() {
	select {
	case <-d.reaped:
		return
	case <-d.killed:
	}
	limit := time.NewTimer(killGrace)
	defer limit.Stop()
	select {
	case <-d.reaped:
	case <-limit.C:
		d.sup.KillAll()
		<-d.reaped
	}
}
