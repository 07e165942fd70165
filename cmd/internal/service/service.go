// Package service is warden as a systemd service (Type=notify): what systemd is
// told over a life, the watchdog's signs of life, and whether a restart follows
// an end. See configs/systemd/warden.service.
package service

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"
)

// Service keeps systemd informed when it started this warden, and does nothing
// otherwise.
type Service struct {
	listens  bool          // systemd listens
	watchdog time.Duration // systemd kills us after this long without a sign; 0 = never
	log      *slog.Logger
	ending   atomic.Bool // from here on TimeoutStopSec is the limit, and the API may be closed
}

const (
	// startExtension is the time that a start gets, again and again, as long as
	// the supervisor has hope: it gives up by itself on a start that shows no
	// progress, and knows better than a fixed time limit.
	startExtension = time.Minute
	extendEvery    = 15 * time.Second
	serviceTick    = time.Second
)

// New reads what systemd asks for from the environment.
func New(log *slog.Logger) *Service {
	s := &Service{listens: os.Getenv("NOTIFY_SOCKET") != "", log: log}
	var err error
	if s.watchdog, err = systemd.SdWatchdogEnabled(false); err != nil {
		log.Warn("systemd's watchdog setting cannot be read", "err", err)
	}
	return s
}

// Active says whether systemd is told which process is the main one.
func (s *Service) Active() bool { return s.listens }

func (s *Service) tell(state string) {
	if !s.listens {
		return
	}
	if _, err := systemd.SdNotify(false, state); err != nil {
		s.log.Warn("systemd was not told", "state", state, "err", err)
	}
}

// Stopping says that the stop began.
func (s *Service) Stopping() {
	s.ending.Store(true)
	s.tell(systemd.SdNotifyStopping + "\nSTATUS=stopping")
}

// HandOver makes the process that takes over the service's main one.
func (s *Service) HandOver(pid int) {
	s.tell(fmt.Sprintf("MAINPID=%d\nSTATUS=handing over to pid %d", pid, pid))
}

// Run tells how the replicas are, and that the data path answers, until ctx ends.
func (s *Service) Run(ctx context.Context, facts func() Facts, probe func(context.Context) error) {
	if !s.listens {
		return
	}
	tick := time.NewTicker(serviceTick)
	defer tick.Stop()
	var alive <-chan time.Time // never without a watchdog
	if s.watchdog > 0 {
		probes := time.NewTicker(s.watchdog / 3)
		defer probes.Stop()
		alive = probes.C
	}
	var last told
	for {
		var states []string
		states, last = last.next(facts(), time.Now())
		for _, state := range states {
			s.tell(state)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-alive:
			if err := within(ctx, s.watchdog/3, probe); err != nil && !s.ending.Load() {
				s.log.Warn("the API does not answer its own probe", "err", err)
			} else {
				s.tell(systemd.SdNotifyWatchdog)
			}
		}
	}
}

func within(ctx context.Context, limit time.Duration, probe func(context.Context) error) error {
	ctx, done := context.WithTimeout(ctx, limit)
	defer done()
	return probe(ctx)
}

// Facts is what systemd's view of warden depends on.
type Facts struct {
	Ready, Total int
	Coming       bool // some replica may become ready without anybody's help
}

// told is what systemd was told last.
type told struct {
	ready    bool
	status   string
	extended time.Time
}

// next returns what to tell now. READY=1 is said once, when the first replica
// serves; it also ends a start that was extended.
func (s told) next(f Facts, now time.Time) ([]string, told) {
	var out []string
	if !s.ready && f.Ready == 0 && f.Coming && now.Sub(s.extended) >= extendEvery {
		s.extended = now
		out = append(out, fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", startExtension.Microseconds()))
	}
	if status := fmt.Sprintf("STATUS=%d/%d ready", f.Ready, f.Total); status != s.status {
		s.status = status
		out = append(out, status)
	}
	if !s.ready && f.Ready > 0 {
		s.ready = true
		out = append(out, systemd.SdNotifyReady)
	}
	return out, s
}
