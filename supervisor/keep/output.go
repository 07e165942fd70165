package keep

import (
	"fmt"
	"strconv"
	"time"

	"github.com/lm-warden/warden/supervisor"
	"github.com/lm-warden/warden/supervisor/events"
	"github.com/lm-warden/warden/supervisor/machine"
)

// onProcess deals with what the engine's process tree tells.
func (r *replica) onProcess(e supervisor.ProcessEvent) {
	switch e.Kind {
	case supervisor.EngineLine:
		r.onLine(e.Line)
	case supervisor.EngineExited:
		r.facts.pid = 0
		r.handle(machine.Exited{})
	case supervisor.EngineStuck:
		r.handle(machine.Unkilled{PIDs: e.PIDs})
	case supervisor.EngineGone:
		r.onGone(e)
	}
}

func (r *replica) onLine(l supervisor.LogLine) {
	news := r.out.add(l)
	if !r.m.In(supervisor.Starting, supervisor.Warming) && !r.m.Unproven() {
		return
	}
	now := time.Now()
	if p, ok := r.spec.Engine.Phase(l.Text); ok {
		entered := p.Name != r.out.phase.Name
		if r.out.advance(p, now) {
			r.publish()
			if entered && r.out.phase.Name == p.Name {
				r.tell(events.KindPhase, "entered "+p.Name, map[string]string{"phase": p.Name})
			}
		}
	}
	if news && now.Sub(r.progress) >= progressEvery {
		r.progress = now
		r.handle(machine.Progress{})
	}
}

// onGone explains the end of a process and lets the machine decide what follows.
func (r *replica) onGone(e supervisor.ProcessEvent) {
	r.drop() // it has closed itself
	exit := e.Exit
	r.facts.exit = &exit
	d := r.spec.Engine.Diagnose(r.out.last(), exit)
	if e.Note != "" {
		d = supervisor.Diagnosis{Cause: e.Note}
	}
	r.handle(machine.Gone{Diagnosis: d, How: exit.String()})
	if r.m.In(supervisor.Backoff, supervisor.Parked) {
		d = r.m.View().Diagnosis
	}
	r.tellExit(exit, d)
}

func (r *replica) tellExit(exit supervisor.Exit, d supervisor.Diagnosis) {
	now := r.m.View()
	fields := map[string]string{"code": strconv.Itoa(exit.Code), "cause": d.Cause, "fix": d.Fix, "next": string(now.State)}
	if exit.Signal != 0 {
		fields["signal"] = exit.Signal.String()
	}
	text := exit.String()
	switch now.State {
	case supervisor.Stopped, supervisor.WaitingGPU:
		r.tell(events.KindExited, text+", by order", fields)
		return
	}
	if d.Cause != text {
		text += ", " + d.Cause
	}
	switch now.State {
	case supervisor.Backoff:
		wait := time.Until(now.NextRetry).Round(time.Second / 10)
		text += fmt.Sprintf("; restarting in %s (%d of %d)", wait, now.Failures, machine.FailLimit)
	case supervisor.Parked:
		if now.Aside {
			text += "; its GPU is set aside"
			break
		}
		text += "; parked, `warden restart " + string(r.spec.ID) + "` tries again"
	}
	r.tell(events.KindExited, text, fields)
}

// announce tells the world of a new state.
func (r *replica) announce(from supervisor.State, now machine.View) {
	to := now.State
	r.log.Info("replica changed state", "from", string(from), "to", string(to), "reason", now.Note)
	text := string(from) + " -> " + string(to)
	if now.Note != "" {
		text += ": " + now.Note
	}
	r.tell(events.KindState, text, map[string]string{"from": string(from), "to": string(to), "note": now.Note})
	switch {
	case now.FreshlyReady():
		r.announceReady(now.Adopted)
	case to == supervisor.Suspect && now.Adopted && from == supervisor.Pending:
		r.tell(events.KindAdopted, "found running and adopted", map[string]string{
			"generation": strconv.FormatUint(now.Generation, 10), "pid": strconv.Itoa(r.facts.pid)})
	case now.Note == machine.RestartNote && (to == supervisor.Stopping || to == supervisor.Draining):
		r.tell(events.KindRestart, "restart ordered", map[string]string{"reason": "order"})
	}
}

func (r *replica) announceReady(adopted bool) {
	if adopted {
		r.tell(events.KindReady, "serves again without a reload", map[string]string{"adopted": "true"})
		return
	}
	took := r.facts.took
	phases := r.facts.phases
	fields := map[string]string{"seconds": seconds(took)}
	for _, p := range phases {
		fields[p.Name+"_seconds"] = seconds(p.Took)
	}
	text := took.Round(time.Second).String() + " after start"
	if r.starts > 1 {
		text = fmt.Sprintf("%s after restart %d", took.Round(time.Second), r.starts-1)
	}
	if s := summary(phases); s != "" {
		text += " (" + s + ")"
	}
	r.tell(events.KindReady, text, fields)
}

func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 3, 64) }

func (r *replica) tell(kind events.Kind, text string, fields map[string]string) {
	r.opts.Bus.Publish(events.Event{
		Kind: kind, Replica: string(r.spec.ID), Model: r.spec.Model, Text: text, Fields: fields,
	})
}

// keep logs a state file that could not be written. Serving goes on: the file only matters to the next warden.
func (r *replica) keep(what string, err error) {
	if err != nil {
		r.log.Warn("not kept for the next run of warden", "what", what, "err", err)
	}
}

// publish makes what is known visible.
func (r *replica) publish() {
	copied := r.describe()
	r.mu.Lock()
	r.last = copied
	r.mu.Unlock()
	r.opts.Changed(copied)
}

func (r *replica) describe() supervisor.Replica {
	now := r.m.View()
	return supervisor.Replica{
		Spec: r.spec, State: now.State, Note: now.Note, Since: now.Since,
		Phase: r.out.phase, StartedAt: now.StartedAt, ReadyAt: now.ReadyAt, Generation: now.Generation,
		Restarts: max(r.starts-1, 0), RestartsBy: r.restarts, Failures: now.Streak, NextRetry: now.NextRetry, Deadline: now.Deadline,
		Diagnosis: now.Diagnosis, Adopted: now.Adopted, Returns: now.Returns,
		PID: r.facts.pid, LastExit: r.facts.exit, Stats: r.facts.stats,
		ServedModel: r.facts.served.ID, MaxModelLen: r.facts.served.MaxModelLen, Version: r.facts.version,
		LastStart: r.facts.took, StartPhases: r.facts.phases,
	}
}

// snapshot may be called from any goroutine.
func (r *replica) snapshot() supervisor.Replica {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}
