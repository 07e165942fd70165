package tui

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/lm-warden/warden/supervisor/control"
	"github.com/lm-warden/warden/supervisor/control/advice"
)

// plainEvery is how often one replica may tell a new phase: a log file is no progress bar.
const plainEvery = 10 * time.Second

// plainWriter tells a start as lines of a log: text for people and journals, or JSON.
type plainWriter struct {
	log  *slog.Logger
	seen furthest
	told map[string]told
	on   bool // the first line is written
}

// told is what was last said about a replica.
type told struct {
	state, phase string
	generation   uint64
	at           time.Time
}

// newPlain writes to w. Text lines carry no time: whoever collects them, adds it.
func newPlain(w io.Writer, asJSON bool) *plainWriter {
	var h slog.Handler = slog.NewTextHandler(w, &slog.HandlerOptions{ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})
	if asJSON {
		h = slog.NewJSONHandler(w, nil)
	}
	return &plainWriter{log: slog.New(h), seen: furthest{}, told: map[string]told{}}
}

// write tells what is new in a status. Changes of state are told at once, phases at most every plainEvery.
func (p *plainWriter) write(ctx context.Context, s control.Status, now time.Time) {
	if !p.on {
		p.on = true
		p.log.InfoContext(ctx, "warden starting", "version", s.Version, "listen", s.Listen, "replicas", len(s.Replicas), "simulated", s.Simulated)
		p.tuning(ctx, s)
	}
	for _, r := range s.Replicas {
		r = p.seen.see(r)
		was := p.told[r.ID]
		is := told{state: r.State, generation: r.Generation, at: now}
		if r.Phase != nil {
			is.phase = r.Phase.Name
		}
		changed := is.state != was.state || is.generation != was.generation
		if !changed && (is.phase == was.phase || now.Sub(was.at) < plainEvery) {
			continue
		}
		p.told[r.ID] = is
		level, msg := plainMessage(r.State)
		p.log.Log(ctx, level, msg, plainAttrs(r, now)...)
	}
}

// tuning tells before any load how much conversation will fit, and what was chosen for it.
func (p *plainWriter) tuning(ctx context.Context, s control.Status) {
	for _, m := range s.Models {
		for _, text := range append([]string{advice.Capacity(m, s.Replicas), advice.Tier(m)}, advice.Chosen(m)...) {
			if text != "" {
				p.log.InfoContext(ctx, "engine setting", "model", m.Alias, "reason", text)
			}
		}
	}
}

// ready tells that the start is over.
func (p *plainWriter) ready(ctx context.Context, s control.Status) {
	p.log.InfoContext(ctx, "warden serving", "listen", s.Listen, "ready", s.Count(control.StateReady), "replicas", len(s.Replicas), "simulated", s.Simulated)
}

func plainMessage(state string) (slog.Level, string) {
	switch state {
	case control.StateStarting, control.StateWarming:
		return slog.LevelInfo, "replica starting"
	case control.StateReady:
		return slog.LevelInfo, "replica ready"
	case control.StateBackoff:
		return slog.LevelWarn, "replica failed"
	case control.StateParked:
		return slog.LevelError, "replica gave up"
	case control.StateStuck:
		return slog.LevelError, "replica cannot be stopped"
	case control.StateSuspect:
		return slog.LevelWarn, "replica does not answer"
	default:
		return slog.LevelInfo, "replica changed"
	}
}

func plainAttrs(r control.Replica, now time.Time) []any {
	attrs := []any{"replica", r.ID}
	add := func(key, value string) {
		if value != "" {
			attrs = append(attrs, key, value)
		}
	}
	if _, msg := plainMessage(r.State); msg == "replica changed" {
		add("state", r.State)
	}
	if p := r.Phase; p != nil && (r.State == control.StateStarting || r.State == control.StateWarming) {
		add("phase", p.Name)
		add("detail", p.Detail)
		if p.Total > 0 {
			attrs = append(attrs, "done", p.Done, "total", p.Total)
		}
	}
	if r.State == control.StateReady && r.ReadyAt.After(r.StartedAt) && !r.StartedAt.IsZero() {
		attrs = append(attrs, "seconds", int(r.ReadyAt.Sub(r.StartedAt).Seconds()))
	}
	if d := r.Diagnosis; d != nil && r.State != control.StateReady {
		add("cause", d.Cause)
		add("fix", d.Fix)
	}
	add("note", r.Note)
	if r.State == control.StateBackoff && r.NextRetry.After(now) {
		attrs = append(attrs, "retry_seconds", int(r.NextRetry.Sub(now).Seconds()))
	}
	return attrs
}
