package launch

import (
	"context"
	"errors"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/lm-warden/warden/supervisor"
	"github.com/lm-warden/warden/supervisor/shim"
	"github.com/lm-warden/warden/supervisor/shim/proc"
)

// killPatience is how long a shim gets to carry out a kill before its tree is ended without it. It gives up on
// processes itself after 5 s.
const killPatience = 8 * time.Second

// knockEvery is how often a shim that is to kill is asked whether it is there.
const knockEvery = time.Second

// process is an engine under a shim, seen from warden.
type process struct {
	dir    string
	client *shim.Client
	cmd    *exec.Cmd // nil when an earlier warden started the shim
	events chan supervisor.ProcessEvent
	limit  time.Duration // killPatience
	life   context.Context
	over   context.CancelFunc // ends life, when the pump has ended

	mu       sync.Mutex
	patience *time.Timer // running after Kill
	closed   chan struct{}
}

func newProcess(dir string, client *shim.Client, cmd *exec.Cmd, limit time.Duration) *process {
	life, over := context.WithCancel(context.Background())
	p := &process{
		life: life, over: over, dir: dir, client: client, cmd: cmd, limit: limit,
		events: make(chan supervisor.ProcessEvent), closed: make(chan struct{}),
	}
	go p.pump()
	return p
}

func (p *process) Info() supervisor.ProcessInfo {
	s := p.client.State()
	return supervisor.ProcessInfo{PID: s.PID, Generation: s.Generation, StartedAt: s.StartedAt}
}

func (p *process) Events() <-chan supervisor.ProcessEvent { return p.events }

// Stop is an order to the shim. Should the shim not take it, Kill follows by the supervisor's own time limit.
func (p *process) Stop(grace time.Duration) { _ = p.client.Stop(grace) }

// Kill orders the shim to kill, and does it without the shim when that takes too long, or soon when it answers nobody.
func (p *process) Kill() {
	_ = p.client.Kill()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.patience == nil {
		p.patience = time.AfterFunc(p.limit, p.giveUpOnShim)
		go p.knock()
	}
}

// knock gives up on a shim that does not greet: one that is stopped would only cost the rest of the patience. It knocks
// until the end, because a shim may stop between a greeting and the kill.
func (p *process) knock() {
	for p.life.Err() == nil {
		ctx, cancel := context.WithTimeout(p.life, shim.GreetLimit)
		c, err := shim.Connect(ctx, p.dir)
		late := errors.Is(ctx.Err(), context.DeadlineExceeded) // not where its socket was removed: it has the order
		cancel()
		if err == nil {
			_ = c.Close()
		} else if late {
			p.giveUpOnShim()
			return
		}
		select {
		case <-p.life.Done():
		case <-time.After(knockEvery):
		}
	}
}

// giveUpOnShim makes the pump believe that the shim is dead, and it then makes it so.
func (p *process) giveUpOnShim() { _ = p.client.Close() }

func (p *process) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.closed:
	default:
		close(p.closed)
		_ = p.client.Close()
	}
}

// pump passes on what the shim says, and speaks for it when it has died.
func (p *process) pump() {
	defer close(p.events)
	defer p.over()
	defer p.stopPatience()
	exit := p.client.State().Exit // an engine may be quicker than we were
	if exit != nil {
		p.tell(supervisor.ProcessEvent{Kind: supervisor.EngineExited, Exit: supervisor.Exit(*exit)})
	}
	for {
		n, err := p.client.Next()
		switch {
		case err != nil:
			p.shimLost(exit)
			return
		case n.Gone:
			p.end(n.Exited, "")
			return
		case n.Line != nil:
			p.tell(supervisor.ProcessEvent{Kind: supervisor.EngineLine, Line: supervisor.LogLine(*n.Line)})
		case n.Exited != nil:
			exit = n.Exited
			p.tell(supervisor.ProcessEvent{Kind: supervisor.EngineExited, Exit: supervisor.Exit(*exit)})
		case n.Stuck != nil:
			p.tell(supervisor.ProcessEvent{Kind: supervisor.EngineStuck, PIDs: n.Stuck})
		}
	}
}

func (p *process) stopPatience() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.patience != nil {
		p.patience.Stop()
	}
	_ = p.client.Close()
}

// tell hands an event on unless nobody wants it any more.
func (p *process) tell(e supervisor.ProcessEvent) {
	select {
	case p.events <- e:
	case <-p.closed:
	}
}

// shimLost ends the tree in place of a dead or deaf shim.
func (p *process) shimLost(exit *shim.Exit) {
	select {
	case <-p.closed: // we left, not the shim
		if p.cmd != nil {
			go func() { _ = p.cmd.Wait() }() // it runs on, and may end while this process stays
		}
		return
	default:
	}
	note := ""
	if exit == nil {
		exit = &shim.Exit{Signal: syscall.SIGKILL, At: time.Now()}
		note = "the engine's shim was killed"
		p.tell(supervisor.ProcessEvent{Kind: supervisor.EngineExited, Exit: supervisor.Exit(*exit), Note: note})
	}
	known := p.client.State()
	known.Exit = exit
	for {
		ctx, cancel := context.WithTimeout(context.Background(), killPatience)
		_, err := shim.ReapKnown(ctx, p.dir, known)
		cancel()
		if err == nil {
			break
		}
		if errors.Is(err, proc.ErrAlive) {
			p.tell(supervisor.ProcessEvent{Kind: supervisor.EngineStuck, PIDs: []int{p.client.State().PID}})
		}
		select {
		case <-p.closed:
			return
		case <-time.After(time.Second):
		}
	}
	p.end(exit, note)
}

// end tells that nothing is left, once the shim itself has ended and its locks are free.
func (p *process) end(exit *shim.Exit, note string) {
	if p.cmd != nil {
		_ = p.cmd.Wait() // its own exit status says nothing about the engine
	} else {
		ctx, cancel := context.WithTimeout(context.Background(), killPatience)
		defer cancel()
		_ = p.client.WaitEnd(ctx) // a shim that lingers makes the next start fail on its lock, and be repeated
	}
	p.tell(supervisor.ProcessEvent{Kind: supervisor.EngineGone, Exit: supervisor.Exit(*exit), Note: note})
}
