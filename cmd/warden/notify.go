package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"

	"github.com/lm-warden/warden/supervisor"
)

// service keeps systemd informed when it started this warden (Type=notify), and
// does nothing otherwise. See configs/systemd/warden.service.
type service struct {
	told     bool          // systemd listens
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

func newService(log *slog.Logger) *service {
	s := &service{told: os.Getenv("NOTIFY_SOCKET") != "", log: log}
	var err error
	if s.watchdog, err = systemd.SdWatchdogEnabled(false); err != nil {
		log.Warn("systemd's watchdog setting cannot be read", "err", err)
	}
	return s
}

// active says whether systemd is told which process is the main one.
func (s *service) active() bool { return s.told }

func (s *service) tell(state string) {
	if !s.told {
		return
	}
	if _, err := systemd.SdNotify(false, state); err != nil {
		s.log.Warn("systemd was not told", "state", state, "err", err)
	}
}

func (s *service) stopping() {
	s.ending.Store(true)
	s.tell(systemd.SdNotifyStopping + "\nSTATUS=stopping")
}

// handOver makes the process that takes over the service's main one.
func (s *service) handOver(pid int) {
	s.tell(fmt.Sprintf("MAINPID=%d\nSTATUS=handing over to pid %d", pid, pid))
}

// run tells how the replicas are, and that the data path answers, until ctx ends.
func (s *service) run(ctx context.Context, facts func() serviceFacts, health string) {
	if !s.told {
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
	client := &http.Client{Timeout: s.watchdog / 3, Transport: &http.Transport{DisableKeepAlives: true}}
	var last serviceState
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
			if err := probe(ctx, client, health); err != nil && !s.ending.Load() {
				s.log.Warn("the API does not answer its own probe", "err", err)
			} else {
				s.tell(systemd.SdNotifyWatchdog)
			}
		}
	}
}

// probe goes the way of a client's request, as far as it needs no replica.
func probe(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", url, resp.Status)
	}
	return nil
}

// serviceFacts is what systemd's view of warden depends on.
type serviceFacts struct {
	ready, total int
	coming       bool // some replica may become ready without anybody's help
}

func (d *daemon) serviceFacts() serviceFacts {
	var f serviceFacts
	for _, r := range d.sup.Snapshot() {
		f.total++
		if r.State == supervisor.Ready {
			f.ready++
		}
		f.coming = f.coming || r.State.Coming()
	}
	return f
}

// serviceState is what systemd was told last.
type serviceState struct {
	ready    bool
	status   string
	extended time.Time
}

// next returns what to tell now. READY=1 is said once, when the first replica
// serves; it also ends a start that was extended.
func (s serviceState) next(f serviceFacts, now time.Time) ([]string, serviceState) {
	var out []string
	if !s.ready && f.ready == 0 && f.coming && now.Sub(s.extended) >= extendEvery {
		s.extended = now
		out = append(out, fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", startExtension.Microseconds()))
	}
	if status := fmt.Sprintf("STATUS=%d/%d ready", f.ready, f.total); status != s.status {
		s.status = status
		out = append(out, status)
	}
	if !s.ready && f.ready > 0 {
		s.ready = true
		out = append(out, systemd.SdNotifyReady)
	}
	return out, s
}
