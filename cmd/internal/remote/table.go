package remote

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/lm-warden/warden/cmd/internal/words"
	"github.com/lm-warden/warden/supervisor/control"
)

// WriteStatus prints a table without borders: "-" for what is not known, free
// text last.
func WriteStatus(w io.Writer, s control.Status, wide bool) error {
	if s.Simulated {
		fmt.Fprintln(w, "SIMULATED engines: no figure here was measured on a GPU")
	}
	if h := s.Hold; h != nil {
		fmt.Fprintf(w, "no engine can start: %s\n  fix: %s\n  engines that run go on; nothing is restarted since %s\n", h.Cause, h.Fix, h.Since.Local().Format(time.TimeOnly))
	}
	if s.Access != nil && s.Access.Problem != "" {
		fmt.Fprintln(w, s.Access.Problem)
	}
	for _, g := range s.GPUs {
		switch a := g.Aside; {
		case a != nil:
			fmt.Fprintf(w, "GPU %d is set aside: %s\n  fix: %s\n", g.Index, a.Cause, asideFix(g))
		case g.UnavailableReason != "":
			fmt.Fprintf(w, "GPU %d cannot be read: %s\n  fix: %s\n", g.Index, g.UnavailableReason, g.UnavailableFix)
		}
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	header := "REPLICA\tSTATE\tGPU\tUP\tRST\tHELD\tWAIT\tKV\tHIT"
	if wide {
		header = "REPLICA\tMODEL\tSTATE\tGPU\tPID\tUP\tRST\tHELD\tSTICKY\tSPILLED\tRUN\tWAIT\tKV\tHIT\tTTFT50\tTTFT95"
	}
	fmt.Fprintln(tw, header+"\tNOTE")
	for _, r := range s.Replicas {
		e := engineOf(r)
		row := []string{r.ID, r.State, devices(r), uptime(r, s.Now), strconv.Itoa(r.Restarts), strconv.Itoa(r.Held), e.waiting, e.kv, e.hit}
		if wide {
			row = []string{r.ID, r.Model, r.State, devices(r), orDash(r.PID), uptime(r, s.Now), strconv.Itoa(r.Restarts), strconv.Itoa(r.Held),
				strconv.Itoa(r.StickySessions), strconv.Itoa(r.SpilledSessions), e.running, e.waiting, e.kv, e.hit, e.ttft50, e.ttft95}
		}
		fmt.Fprintln(tw, strings.Join(append(row, note(r, s.Now)), "\t"))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	writeMemory(w, s, wide)
	return nil
}

type engineCells struct{ running, waiting, kv, hit, ttft50, ttft95 string }

func engineOf(r control.Replica) engineCells {
	c := engineCells{"-", "-", "-", "-", "-", "-"}
	if e := r.Engine; e != nil && !e.Stale {
		c.running, c.waiting = strconv.Itoa(e.Running), strconv.Itoa(e.Waiting)
		c.kv = fmt.Sprintf("%.0f%%", 100*e.KVUsed)
		if e.HitRate60s != nil {
			c.hit = fmt.Sprintf("%.0f%%", 100**e.HitRate60s)
		}
	}
	if q := r.TTFT; q != nil {
		c.ttft50, c.ttft95 = fmt.Sprintf("%.2fs", q.P50), fmt.Sprintf("%.2fs", q.P95)
	}
	return c
}

func devices(r control.Replica) string {
	list, prefix := r.GPUs, ""
	if len(list) == 0 {
		list, prefix = r.CPUs, "cpu"
	}
	if len(list) == 0 {
		return "-"
	}
	return prefix + strings.ReplaceAll(strings.Trim(fmt.Sprint(list), "[]"), " ", ",")
}

func uptime(r control.Replica, now time.Time) string {
	if r.PID == 0 || r.StartedAt.IsZero() {
		return "-"
	}
	return words.Short(now.Sub(r.StartedAt))
}

func orDash(n int) string {
	if n == 0 {
		return "-"
	}
	return strconv.Itoa(n)
}

// note is the last column: the phase while starting, the cause and the next
// try after a failure.
func note(r control.Replica, now time.Time) string {
	text := r.Note
	if p := r.Phase; p != nil && (r.State == control.StateStarting || r.State == control.StateWarming) {
		text = p.Name
		if p.Total > 0 {
			text += fmt.Sprintf(" %d/%d", p.Done, p.Total)
		}
		if p.Detail != "" {
			text += ", " + p.Detail
		}
	}
	if d := r.Diagnosis; d != nil && d.Cause != "" && text == "" {
		text = d.Cause
	}
	if r.State == control.StateBackoff && !r.NextRetry.IsZero() {
		text = strings.TrimPrefix(text+", retry in "+words.Short(r.NextRetry.Sub(now)), ", ")
	}
	return text
}

// asideFix is how a GPU comes back into use.
func asideFix(g control.GPU) string {
	if g.Replica == "" {
		return g.Aside.Fix
	}
	return g.Aside.Fix + "; then `warden retry " + g.Replica + "`"
}
