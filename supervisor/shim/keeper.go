package shim

import (
	"log/slog"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lm-warden/warden/supervisor/shim/proc"
)

// The pace of ending a tree.
const (
	defaultGrace  = 10 * time.Second       // SIGTERM to the main process, before the group gets it
	groupGrace    = 5 * time.Second        // SIGTERM to the group, before SIGKILL
	leftoverGrace = 500 * time.Millisecond // for what outlives the main process in an orderly stop
	killEvery     = 50 * time.Millisecond  // SIGKILL is repeated: new children may have been born meanwhile
	killLimit     = 5 * time.Second        // then the rest counts as unkillable
	trackerGrace  = time.Second            // for what tidies up after the killed ones
	stuckEvery    = time.Second            // and is hit again this often
)

// stage is how far the end of a tree has come. It only grows.
//
// SIGTERM goes to the main process alone at first: sent to the whole group it hits vLLM's workers before their
// handlers exist and cuts the drain that the main process leads (vllm-project/vllm#44751).
type stage int

const (
	running stage = iota
	termMain
	termGroup
	killing
	stuck
)

// keeper owns the state of one engine from its start until its tree is gone.
type keeper struct {
	dir    string
	log    *slog.Logger
	state  State
	hub    *hub
	cgroup *cgroup // nil = none
	lost   func() uint64

	stage     stage
	timer     *time.Timer
	killSince time.Time
}

// run returns when no process of the tree is left.
func (k *keeper) run(reaped <-chan ended, orders <-chan request, signals <-chan os.Signal, orphan time.Duration) {
	k.timer = time.NewTimer(time.Hour)
	k.timer.Stop()
	lonely := newLoneliness(orphan)
	defer lonely.stop()
	for {
		select {
		case e, more := <-reaped:
			if !more {
				k.timer.Stop()
				return
			}
			if e.pid == k.state.PID && k.state.Exit == nil {
				k.mainEnded(e)
			}
		case r := <-orders:
			switch r.Op {
			case opStop:
				k.stop(r.Grace)
			case opKill:
				k.enter(killing)
			}
		case <-signals: // somebody who knows nothing of the socket wants an end
			k.stop(defaultGrace)
		case <-lonely.tick():
			if lonely.tooLong(k.hub.clientCount(), time.Now()) && k.stage == running {
				k.log.Info("engine stopped: warden is gone", "after", orphan)
				k.stop(defaultGrace)
			}
		case <-k.timer.C:
			k.next()
		}
	}
}

func (k *keeper) mainEnded(e ended) {
	k.state.Exit = exitOf(e.status, time.Now())
	k.hub.setState(k.state)
	k.hub.notice(message{Kind: msgExited, Exit: k.state.Exit})
	k.save()
	switch k.stage {
	case running: // unordered: what is left of it is of no use
		k.enter(killing)
	case termMain, termGroup:
		k.stage = termGroup
		k.timer.Reset(leftoverGrace)
	case killing, stuck:
	}
}

func (k *keeper) stop(grace time.Duration) {
	if k.stage != running || k.state.Exit != nil {
		return
	}
	k.enter(termMain)
	k.timer.Reset(grace)
}

// next is called when the timer of a stage has run out.
func (k *keeper) next() {
	switch k.stage {
	case running:
	case termMain:
		k.enter(termGroup)
	case termGroup:
		k.enter(killing)
	case killing, stuck:
		k.killAll()
	}
}

func (k *keeper) enter(s stage) {
	if s <= k.stage {
		return
	}
	k.stage = s
	switch s {
	case running, stuck:
	case termMain:
		k.signalMain(unix.SIGTERM)
	case termGroup:
		k.signalGroup(unix.SIGTERM)
		k.timer.Reset(groupGrace)
	case killing:
		k.killSince = time.Now()
		k.killAll()
	}
}

// signalMain and signalGroup do nothing once the main process is reaped: its number may then be somebody else's.
func (k *keeper) signalMain(sig unix.Signal) {
	if k.state.Exit == nil {
		k.complain(unix.Kill(k.state.PID, sig))
	}
}

func (k *keeper) signalGroup(sig unix.Signal) {
	if k.state.Exit == nil {
		k.complain(unix.Kill(-k.state.PID, sig))
	}
}

// killAll hits everything in the tree and comes back until the reaper says that nothing is left. It goes by the list
// of members, not by the group, to spare trackers for a while: killed with the rest, they would leave some 400 MB of
// shared memory files behind at each crash of vLLM.
func (k *keeper) killAll() {
	spare := time.Since(k.killSince) < trackerGrace
	if k.cgroup != nil && !spare {
		k.complain(k.cgroup.kill())
	}
	tree := k.state.tree()
	tree.Ancestor = os.Getpid()
	members, err := proc.Living(tree)
	k.complain(err)
	var alive []int
	for _, p := range members {
		alive = append(alive, p.PID)
		if !spare || !proc.IsTracker(p.PID) {
			k.complain(proc.Signal(p, unix.SIGKILL))
		}
	}
	if k.stage == killing && time.Since(k.killSince) > killLimit {
		k.stage = stuck
		k.log.Error("processes outlived SIGKILL", "pids", alive)
		k.hub.notice(message{Kind: msgStuck, PIDs: alive})
	}
	if k.stage == stuck {
		k.timer.Reset(stuckEvery)
	} else {
		k.timer.Reset(killEvery)
	}
}

func (k *keeper) complain(err error) {
	if err != nil && err != unix.ESRCH {
		k.log.Warn("a step in ending the engine failed", "err", err)
	}
}

// save writes the state file. It matters to the next warden only, so the engine goes on without it.
func (k *keeper) save() {
	k.state.LostLines = k.lost()
	if err := writeState(k.dir, k.state); err != nil {
		k.log.Error("state file not written; a later warden cannot adopt this engine", "err", err)
	}
}

// loneliness measures how long no client was there.
type loneliness struct {
	limit  time.Duration // 0 = for ever is fine
	ticker *time.Ticker
	since  time.Time
}

func newLoneliness(limit time.Duration) *loneliness {
	l := &loneliness{limit: limit, since: time.Now()}
	if limit > 0 {
		l.ticker = time.NewTicker(max(limit/4, 10*time.Millisecond))
	}
	return l
}

func (l *loneliness) tick() <-chan time.Time {
	if l.ticker == nil {
		return nil
	}
	return l.ticker.C
}

func (l *loneliness) tooLong(clients int, now time.Time) bool {
	if clients > 0 {
		l.since = now
	}
	return now.Sub(l.since) >= l.limit
}

func (l *loneliness) stop() {
	if l.ticker != nil {
		l.ticker.Stop()
	}
}
