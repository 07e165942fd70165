package supervisor

import (
	"fmt"
	"strconv"
	"time"

	"github.com/lm-warden/warden/supervisor/events"
)

// onProcess deals with what the engine's process tree tells.
func (r *replica) onProcess(e ProcessEvent) {
	switch e.Kind {
	case EngineLine:
		r.onLine(e.Line)
	case EngineExited:
		r.facts.pid = 0
		r.handle(exited{})
	case EngineStuck:
		r.handle(unkilled{e.PIDs})
	case EngineGone:
		r.onGone(e)
	}
}

func (r *replica) onLine(l LogLine) {
	news := r.out.add(l)
	if !r.m.in(Starting, Warming) && !r.m.unproven() {
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
		r.handle(progress{})
	}
}

// onGone explains the end of a process and lets the machine decide what follows.
func (r *replica) onGone(e ProcessEvent) {
	r.drop() // it has closed itself
	exit := e.Exit
	r.facts.exit = &exit
	d := r.spec.Engine.Diagnose(r.out.last(), exit)
	if e.Note != "" {
		d = Diagnosis{Cause: e.Note}
	}
	r.handle(gone{diagnosis: d, how: exit.String()})
	if r.m.in(Backoff, Parked) {
		d = r.m.diagnosis
	}
	r.tellExit(exit, d)
}

func (r *replica) tellExit(exit Exit, d Diagnosis) {
	fields := map[string]string{"code": strconv.Itoa(exit.Code), "cause": d.Cause, "fix": d.Fix, "next": string(r.m.state)}
	if exit.Signal != 0 {
		fields["signal"] = exit.Signal.String()
	}
	text := exit.String()
	switch r.m.state {
	case Stopped, WaitingGPU:
		r.tell(events.KindExited, text+", by order", fields)
		return
	}
	if d.Cause != text {
		text += ", " + d.Cause
	}
	switch r.m.state {
	case Backoff:
		wait := time.Until(r.m.nextRetry).Round(time.Second / 10)
		text += fmt.Sprintf("; restarting in %s (%d of %d)", wait, len(r.m.failures), failLimit)
	case Parked:
		if r.m.then == afterAside {
			text += "; its GPU is set aside"
			break
		}
		text += "; parked, `warden restart " + string(r.spec.ID) + "` tries again"
	}
	r.tell(events.KindExited, text, fields)
}

// String says how a process ended: "code 1", "killed by SIGKILL".
func (e Exit) String() string {
	if e.Signal != 0 {
		return "ended by signal: " + e.Signal.String()
	}
	return "code " + strconv.Itoa(e.Code)
}

// announce tells the world of a new state.
func (r *replica) announce(from State) {
	to := r.m.state
	r.log.Info("replica changed state", "from", string(from), "to", string(to), "reason", r.m.note)
	text := string(from) + " -> " + string(to)
	if r.m.note != "" {
		text += ": " + r.m.note
	}
	r.tell(events.KindState, text, map[string]string{"from": string(from), "to": string(to), "note": r.m.note})
	switch {
	case r.freshlyReady():
		r.announceReady()
	case to == Suspect && r.m.adopted && from == Pending:
		r.tell(events.KindAdopted, "found running and adopted", map[string]string{
			"generation": strconv.FormatUint(r.m.generation, 10), "pid": strconv.Itoa(r.facts.pid)})
	case r.m.note == restartNote && (to == Stopping || to == Draining):
		r.tell(events.KindRestart, "restart ordered", map[string]string{"reason": "order"})
	}
}

func (r *replica) announceReady() {
	if r.m.adopted {
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

func (r *replica) describe() Replica {
	return Replica{
		Spec: r.spec, State: r.m.state, Note: r.m.note, Since: r.m.since,
		Phase: r.out.phase, StartedAt: r.m.startedAt, ReadyAt: r.m.readyAt, Generation: r.m.generation,
		Restarts: max(r.starts-1, 0), RestartsBy: r.restarts, Failures: r.m.streak, NextRetry: r.m.nextRetry, Deadline: r.m.deadline,
		Diagnosis: r.m.diagnosis, Adopted: r.m.adopted,
		PID: r.facts.pid, LastExit: r.facts.exit, Stats: r.facts.stats,
		ServedModel: r.facts.served.ID, MaxModelLen: r.facts.served.MaxModelLen, Version: r.facts.version,
		LastStart: r.facts.took, StartPhases: r.facts.phases,
	}
}

// snapshot may be called from any goroutine.
func (r *replica) snapshot() Replica {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}
