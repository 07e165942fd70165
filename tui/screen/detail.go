package screen

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lm-warden/warden/supervisor/control"
	"github.com/lm-warden/warden/tui/cell"
)

// detailLines tell everything about the selected replica.
func (s view) detailLines(w int, t cell.Theme) []string {
	r, ok := s.Current()
	if !ok {
		return []string{" no replica"}
	}
	var out []string
	row := func(label, words string) {
		if words != "" {
			out = append(out, " "+t.Paint(dim, cell.Left(label, 14, t.ASCII))+cell.Cut(words, w-16, t.ASCII))
		}
	}
	now := s.DaemonNow()
	row("replica", r.ID+" of "+r.Model)
	row("state", strings.TrimSpace(r.State+" for "+cell.Age(now.Sub(r.Since))+"   "+r.Note))
	if p := r.Phase; p != nil {
		row("phase", strings.TrimSpace(p.Name+" "+p.Detail))
	}
	row("process", processText(r, now))
	row("GPUs", s.gpusText(r))
	row("CPUs", ints(r.CPUs))
	row("requests", fmt.Sprintf("%d held, %d since start, %d failed", r.Held, r.RequestsTotal, r.ErrorsTotal))
	row("sessions", fmt.Sprintf("%d sticky, %d spilled here, about %s tokens", r.StickySessions, r.SpilledSessions, cell.Count(float64(r.SessionTokens))))
	for _, l := range engineRows(r) {
		row(l[0], l[1])
	}
	if q := r.TTFT; q != nil {
		row("TTFT", fmt.Sprintf("p50 %s, p95 %s, p99 %s", cell.Seconds(q.P50), cell.Seconds(q.P95), cell.Seconds(q.P99)))
	}
	if d := r.Diagnosis; d != nil {
		row("cause", d.Cause)
		row("fix", d.Fix)
		row("log line", d.Line)
	}
	list := s.sessionList(r)
	out = append(out, "", t.Paint(dim, sessionTitle(r, len(list), true, t)))
	return append(out, s.sessionLines(list, r, w, true, t)...)
}

func processText(r control.Replica, now time.Time) string {
	out := fmt.Sprintf("start %d, %d %s", r.Generation, r.Restarts, plural(r.Restarts, "restart", "restarts"))
	if r.PID != 0 {
		out = fmt.Sprintf("pid %d, ", r.PID) + out
	}
	if !r.ReadyAt.IsZero() {
		out += ", ready for " + cell.Age(now.Sub(r.ReadyAt))
		if !r.StartedAt.IsZero() && r.ReadyAt.After(r.StartedAt) {
			out += " after " + cell.Clock(r.ReadyAt.Sub(r.StartedAt))
		}
	}
	return out
}

func engineRows(r control.Replica) [][2]string {
	e := r.Engine
	if e == nil {
		return [][2]string{{"engine", "no figures yet"}}
	}
	capacity := "unknown"
	if e.KVCapacityTokens > 0 {
		capacity = cell.Count(float64(e.KVCapacityTokens)) + " tokens"
		if r.SessionTokens2m > 0 {
			capacity += fmt.Sprintf(", sessions of the last 2 min need %s of it", cell.Percent(float64(r.SessionTokens2m)/float64(e.KVCapacityTokens)))
		}
	}
	age := fmt.Sprintf("%d running, %d waiting, %.1fs old", e.Running, e.Waiting, e.AgeSeconds)
	if e.Stale {
		age += " (stale: placement ignores it)"
	}
	out := [][2]string{
		{"engine", age},
		{"KV cache", cell.Percent(e.KVUsed) + " held by running requests; capacity " + capacity},
		{"prefix hits", ratio(e.HitRate60s).s + " of prompt tokens in 60 s; preemptions " + preemptions(e).s},
		{"tokens/s", "prefill " + perSecond(e.PrefillTokensPerSecond).s + ", decode " + perSecond(e.DecodeTokensPerSecond).s},
	}
	if t := e.HostTier; t != nil {
		size := ""
		if t.CapacityTokens > 0 {
			size = "; holds " + cell.Count(float64(t.CapacityTokens)) + " tokens"
		}
		out = append(out, [2]string{"host memory", fmt.Sprintf("%s of what the KV cache lacked came from there in 60 s; in all %s of %s tokens%s",
			ratio(t.HitRate60s).s, cell.Count(float64(t.HitTokens)), cell.Count(float64(t.QueriedTokens)), size)})
	}
	if p := r.PromptTokens; p != nil {
		out = append(out, [2]string{"prompt tokens", fmt.Sprintf("cached %s/s, computed %s/s; last hour %s cached; in all %s cached, %s computed",
			cell.Count(p.CachedPerSecond), cell.Count(p.ComputedPerSecond), ratio(p.CachedShareHour).s, cell.Count(float64(p.CachedTotal)), cell.Count(float64(p.ComputedTotal)))})
	}
	return out
}

func (s view) gpusText(r control.Replica) string {
	var out []string
	for _, g := range s.Shown().Status.GPUs {
		for _, i := range r.GPUs {
			if g.Index != i {
				continue
			}
			words := fmt.Sprintf("%d %s", g.Index, g.Name)
			if g.MemoryUsedBytes != nil && g.MemoryTotalBytes != nil {
				words += " " + cell.Bytes(*g.MemoryUsedBytes) + " of " + cell.Bytes(*g.MemoryTotalBytes)
			}
			if len(g.Throttled) > 0 {
				words += " (slowed down: " + strings.Join(g.Throttled, ", ") + ")"
			}
			out = append(out, words)
		}
	}
	if len(out) == 0 {
		return ints(r.GPUs)
	}
	return strings.Join(out, "; ")
}

// ints writes ascending numbers with ranges: "0-3, 8".
func ints(list []int) string {
	var out []string
	for i := 0; i < len(list); {
		j := i
		for j+1 < len(list) && list[j+1] == list[j]+1 {
			j++
		}
		if j == i {
			out = append(out, strconv.Itoa(list[i]))
		} else {
			out = append(out, strconv.Itoa(list[i])+"-"+strconv.Itoa(list[j]))
		}
		i = j + 1
	}
	return strings.Join(out, ", ")
}
