package gpuwatch

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lm-warden/warden/gpu"
	"github.com/lm-warden/warden/supervisor"
	"github.com/lm-warden/warden/supervisor/events"
)

// hangingSource is a driver that does not come back from a look.
type hangingSource struct{ gpu.Source }

func (hangingSource) Sample(ctx context.Context) ([]gpu.Sample, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// A GPU that falls off the bus makes the driver hang: its fault counts at once,
// and not when the look at it is given up.
func TestFaultsCountWhileALookHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reports := make(chan gpu.XID, 1)
		aside := make(chan string, 1)
		bus := events.NewBus(1)
		w := &Watch{source: hangingSource{}, events: reports, samples: map[string]gpu.Sample{}, log: slog.New(slog.DiscardHandler)}
		w.faults = &faults{
			setAside: func(uuid string, _ supervisor.Aside) bool { aside <- uuid; return true },
			publish:  bus.Publish, log: w.log,
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			w.Run(ctx, bus)
		}()
		reports <- gpu.XID{UUID: "GPU-a", Code: 79, At: time.Now()}
		synctest.Wait()
		select {
		case uuid := <-aside:
			if uuid != "GPU-a" {
				t.Errorf("set aside: %s", uuid)
			}
		default:
			t.Error("a lost GPU is in use as long as the driver hangs")
		}
		close(reports) // the reader of the driver has ended
		cancel()
		<-done
	})
}
