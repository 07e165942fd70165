package explain

import (
	"fmt"
	"strings"

	"github.com/lm-warden/warden/supervisor/control"
)

// gaveUp tells of replicas that do not run, those with one cause together.
func gaveUp(_ control.Model, rs []control.Replica, _ Waits) []Finding {
	var out []Finding
	index := map[string]int{}
	for _, r := range rs {
		var verb string
		switch r.State {
		case control.StateParked:
			verb = "gave up"
		case control.StateStuck:
			verb = "cannot be stopped"
		case control.StateBackoff:
			verb = "failed and will be started again"
		default:
			continue
		}
		f := failure(r)
		key := verb + "\x00" + f.Cause
		if i, known := index[key]; known {
			out[i].Replicas = append(out[i].Replicas, r.ID)
			continue
		}
		index[key] = len(out)
		f.Short = verb // completed below, once it is known who shares it
		out = append(out, f)
	}
	for i, f := range out {
		who := names(f.Replicas)
		out[i].Short = strings.Join([]string{who + " " + f.Short, f.Cause}, ": ")
		out[i].Cause = who + " " + f.Short + ": " + f.Cause + "."
		if f.Remedy == "" {
			out[i].Remedy = "`warden logs " + f.Replicas[0] + " --previous` shows its last lines."
		}
	}
	return out
}

// failure is the cause as far as it is known.
func failure(r control.Replica) Finding {
	f := Finding{Level: Bad, Replicas: []string{r.ID}, Cause: "the cause is not known"}
	if r.State == control.StateBackoff {
		f.Level = Warn // it may come back
	}
	if r.Note != "" {
		f.Cause = r.Note
	}
	if d := r.Diagnosis; d != nil {
		if d.Cause != "" {
			f.Cause = d.Cause
		}
		f.Evidence, f.Remedy = d.Line, d.Fix
	}
	if f.Evidence == "" {
		f.Evidence = fmt.Sprintf("%s was started %d %s.", r.ID, r.Generation, plural(int(r.Generation), "time", "times"))
	}
	f.Cause = strings.TrimSuffix(f.Cause, ".")
	return f
}

// silent tells of replicas that run but do not answer.
func silent(_ control.Model, rs []control.Replica, _ Waits) []Finding {
	var out []Finding
	for _, r := range rs {
		if r.State != control.StateSuspect {
			continue
		}
		evidence := fmt.Sprintf("%d %s held there, no new ones are placed.", r.Held, plural(r.Held, "request is", "requests are"))
		if r.Note != "" {
			evidence = r.Note + "; " + evidence
		}
		out = append(out, Finding{
			Level: Warn, Replicas: []string{r.ID},
			Short:    r.ID + " does not answer its health check",
			Cause:    r.ID + " runs, but does not answer its health check.",
			Evidence: evidence,
			Remedy:   "warden restarts it when it makes no progress; `warden restart " + r.ID + "` does so now.",
		})
	}
	return out
}

// stale tells of replicas whose engine stopped telling figures.
func stale(_ control.Model, rs []control.Replica, _ Waits) []Finding {
	var out []Finding
	for _, r := range rs {
		if r.State != control.StateReady || r.Engine == nil || !r.Engine.Stale {
			continue
		}
		out = append(out, Finding{
			Level: Warn, Replicas: []string{r.ID},
			Short:    fmt.Sprintf("%s: its figures are %.0f s old", r.ID, r.Engine.AgeSeconds),
			Cause:    fmt.Sprintf("The engine of %s has not told its figures for %.0f s.", r.ID, r.Engine.AgeSeconds),
			Evidence: "RUN, WAIT, KV and HIT of that row are old; placement ignores them and counts requests held.",
			Remedy:   "An engine under a very long prompt may answer late; `warden logs " + r.ID + " -f` shows whether it works.",
		})
	}
	return out
}
