package state

import (
	"github.com/lm-warden/warden/supervisor/control"
	"github.com/lm-warden/warden/supervisor/events"
	"github.com/lm-warden/warden/tui/cell"
)

// Text from outside (client names, engine output, error messages) is cleaned once, where it enters the State: then no
// line of drawing code has to remember that a name may hold an escape sequence. The caller's slices stay as they are.

// Clean makes every text of a status safe to draw.
func Clean(s control.Status) control.Status {
	cleanAll(&s.Version, &s.Listen, &s.State, &s.GPUNote, &s.LogDir)
	if s.Hold != nil {
		h := *s.Hold
		cleanAll(&h.Cause, &h.Fix)
		s.Hold = &h
	}
	s.Models = mapped(s.Models, cleanModel)
	s.Replicas = mapped(s.Replicas, cleanReplica)
	s.GPUs = mapped(s.GPUs, func(g control.GPU) control.GPU {
		cleanAll(&g.UUID, &g.Name, &g.Replica, &g.UnavailableReason, &g.UnavailableFix)
		if g.Aside != nil {
			a := *g.Aside
			cleanAll(&a.Cause, &a.Fix)
			g.Aside = &a
		}
		g.Throttled = mapped(g.Throttled, cell.Clean)
		return g
	})
	return s
}

func cleanModel(m control.Model) control.Model {
	cleanAll(&m.Alias, &m.Repo, &m.DType, &m.Device, &m.Policy)
	m.Queue = mapped(m.Queue, func(q control.Queued) control.Queued {
		cleanAll(&q.Session, &q.Why)
		return q
	})
	return m
}

func cleanReplica(r control.Replica) control.Replica {
	cleanAll(&r.ID, &r.Model, &r.State, &r.Note)
	if r.Phase != nil {
		p := *r.Phase
		cleanAll(&p.Name, &p.Detail)
		r.Phase = &p
	}
	if r.Diagnosis != nil {
		d := *r.Diagnosis
		cleanAll(&d.Cause, &d.Fix, &d.Line)
		r.Diagnosis = &d
	}
	r.Sessions = mapped(r.Sessions, func(c control.Session) control.Session {
		cleanAll(&c.ID, &c.Client, &c.Home, &c.State, &c.Reason)
		return c
	})
	return r
}

func cleanEvent(e events.Event) events.Event {
	cleanAll(&e.Kind, &e.Replica, &e.Model, &e.Text)
	return e
}

func cleanAll(texts ...*string) {
	for _, t := range texts {
		*t = cell.Clean(*t)
	}
}

func mapped[T any](in []T, change func(T) T) []T {
	if in == nil {
		return nil
	}
	out := make([]T, len(in))
	for i, v := range in {
		out[i] = change(v)
	}
	return out
}
