package screen

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/lm-warden/warden/supervisor/control"
	"github.com/lm-warden/warden/tui/cell"
	"github.com/lm-warden/warden/tui/explain"
	"github.com/lm-warden/warden/tui/state"
)

// text is what stands in a cell and what it means.
type text struct {
	s    string
	role role
}

// line is one replica as the table shows it.
type line struct {
	control.Replica
	gpus    []control.GPU
	waits   bool // requests have been waiting for some seconds
	flagged bool // a finding is about it
	stale   bool
	ascii   bool
}

// column is one column of the table: its width includes the gap on its left.
type column struct {
	title string
	w     int
	left  bool
	drop  int  // 0 = always shown; otherwise the largest goes first when the terminal is too narrow
	gpu   bool // needs GPU figures
	value func(line) text
	all   func([]line, control.Totals) text
}

// barColumn is the one that takes up slack.
const barColumn = "KV CACHE"

// Cells of the KV column around its bar: gap before, gap and percentage after.
const (
	barFrame = 2 + 5
	barMin   = 8
	barMax   = 24
)

var columns = []column{
	{title: "REQ", w: 4, value: func(l line) text { return count(l.Held) },
		all: func(ls []line, _ control.Totals) text { return count(sum(ls, func(l line) int { return l.Held })) }},
	{title: "STICKY", w: 7, value: func(l line) text { return count(l.StickySessions) },
		all: func(ls []line, _ control.Totals) text {
			return count(sum(ls, func(l line) int { return l.StickySessions }))
		}},
	{title: "SPILL", w: 6, value: func(l line) text { return count(l.SpilledSessions) },
		all: func(ls []line, _ control.Totals) text {
			return count(sum(ls, func(l line) int { return l.SpilledSessions }))
		}},
	{title: "RUN", w: 5, value: func(l line) text { return scraped(l, func(e *control.Engine) text { return count(e.Running) }) },
		all: func(ls []line, _ control.Totals) text {
			return engineSum(ls, func(e *control.Engine) float64 { return float64(e.Running) })
		}},
	{title: "WAIT", w: 5, value: func(l line) text {
		return scraped(l, func(e *control.Engine) text {
			out := count(e.Waiting)
			if l.waits {
				out.role = warn
			}
			return out
		})
	}, all: func(ls []line, _ control.Totals) text {
		return engineSum(ls, func(e *control.Engine) float64 { return float64(e.Waiting) })
	}},
	{title: barColumn, w: barFrame + 10, left: true},
	{title: "HIT", w: 6, value: func(l line) text { return scraped(l, func(e *control.Engine) text { return ratio(e.HitRate60s) }) },
		all: func(_ []line, t control.Totals) text { return ratio(t.HitRate60s) }},
	{title: "PRE", w: 5, drop: 2, value: func(l line) text { return scraped(l, preemptions) }, all: func(ls []line, _ control.Totals) text {
		return engineSum(ls, func(e *control.Engine) float64 {
			if e.Preemptions60s == nil {
				return cell.Gap()
			}
			return float64(*e.Preemptions60s)
		})
	}},
	{title: "TTFT", w: 7, value: func(l line) text { return quantile(l.TTFT, func(q *control.Quantiles) float64 { return q.P50 }) },
		all: func(_ []line, t control.Totals) text {
			return quantile(t.TTFT, func(q *control.Quantiles) float64 { return q.P50 })
		}},
	{title: "TTFT95", w: 8, drop: 3, value: func(l line) text { return quantile(l.TTFT, func(q *control.Quantiles) float64 { return q.P95 }) },
		all: func(_ []line, t control.Totals) text {
			return quantile(t.TTFT, func(q *control.Quantiles) float64 { return q.P95 })
		}},
	{title: "PREFILL", w: 9, drop: 5, value: func(l line) text {
		return scraped(l, func(e *control.Engine) text { return perSecond(e.PrefillTokensPerSecond) })
	}, all: func(_ []line, t control.Totals) text { return perSecond(t.PrefillTokensPerSecond) }},
	{title: "DECODE", w: 7, drop: 4, value: func(l line) text {
		return scraped(l, func(e *control.Engine) text { return perSecond(e.DecodeTokensPerSecond) })
	}, all: func(_ []line, t control.Totals) text { return perSecond(t.DecodeTokensPerSecond) }},
	{title: "  GPU", w: 13, left: true, drop: 6, gpu: true, value: func(l line) text { return text{s: "  " + gpuName(l.gpus)} },
		all: func(ls []line, _ control.Totals) text {
			n := sum(ls, func(l line) int { return len(l.gpus) })
			return text{s: "  " + strconv.Itoa(n) + plural(n, " GPU", " GPUs")}
		}},
	{title: "MEM", w: 7, drop: 8, gpu: true, value: func(l line) text { return memory(l.gpus) },
		all: func(ls []line, _ control.Totals) text { return memory(allGPUs(ls)) }},
	{title: "UTIL", w: 6, drop: 1, gpu: true, value: func(l line) text { return utilization(l.gpus) },
		all: func(ls []line, _ control.Totals) text { return utilization(allGPUs(ls)) }},
	{title: "W", w: 5, drop: 10, gpu: true, value: func(l line) text { return power(l.gpus) },
		all: func(ls []line, _ control.Totals) text { return power(allGPUs(ls)) }},
	{title: "°C", w: 4, drop: 9, gpu: true, value: func(l line) text { return temperature(l.gpus) },
		all: func(ls []line, _ control.Totals) text { return temperature(allGPUs(ls)) }},
	{title: "RST", w: 5, drop: 7, value: func(l line) text { return count(l.Restarts) },
		all: func(ls []line, _ control.Totals) text { return count(sum(ls, func(l line) int { return l.Restarts })) }},
}

// fit chooses the columns that fit into w cells, and gives the slack to the bar.
func fit(w int, gpus bool) []column {
	var out []column
	for _, c := range columns {
		if gpus || !c.gpu {
			out = append(out, c)
		}
	}
	for total(out) > w {
		worst := -1
		for i, c := range out {
			if c.drop > 0 && (worst < 0 || c.drop > out[worst].drop) {
				worst = i
			}
		}
		if worst < 0 {
			break
		}
		out = slices.Delete(out, worst, worst+1)
	}
	named, twoTimes := false, false
	for _, c := range out {
		named = named || c.title == "  GPU"
		twoTimes = twoTimes || c.title == "TTFT95"
	}
	slack := w - total(out)
	for i := range out {
		switch {
		case out[i].title == barColumn:
			out[i].w = min(max(out[i].w+slack, barFrame+barMin), barFrame+barMax)
		case out[i].title == "UTIL" && !named:
			out[i].title = "GPU"
		case out[i].title == "TTFT" && twoTimes:
			out[i].title = "TTFT50"
		}
	}
	return out
}

func total(cs []column) int {
	n := 0
	for _, c := range cs {
		n += c.w
	}
	return n
}

// kvCell draws bar and percentage; a stale figure says its age where the bar was.
func kvCell(l line, w int) text {
	e := l.Engine
	if e == nil {
		return text{s: cell.Left("  "+cell.Unknown, w, l.ascii)}
	}
	percent := cell.Right(cell.Percent(e.KVUsed), barFrame-2, l.ascii)
	if l.stale {
		age := "stale " + strconv.Itoa(int(e.AgeSeconds)) + "s"
		return text{"  " + cell.Left(age, w-barFrame, l.ascii) + percent, dim}
	}
	out := text{s: "  " + cell.Bar(e.KVUsed, w-barFrame, l.ascii) + percent}
	switch {
	case e.KVUsed >= explain.KVFull:
		out.role = bad
	case e.KVUsed >= explain.KVHigh:
		out.role = warn
	}
	return out
}

// kvAll is the fullest replica.
func kvAll(ls []line, w int, ascii bool) text {
	full := cell.Gap()
	for _, l := range ls {
		full = state.MaxKnown(full, state.PointOf(l.Replica).KV)
	}
	if math.IsNaN(full) {
		return text{s: cell.Left("  "+cell.Unknown, w, ascii)}
	}
	return text{s: "  " + cell.Left("max", w-barFrame, ascii) + cell.Right(cell.Percent(full), barFrame-2, ascii)}
}

func count(n int) text { return text{s: cell.Count(float64(n))} }

func number(v float64, form func(float64) string) text {
	if math.IsNaN(v) {
		return text{s: cell.Unknown}
	}
	return text{s: form(v)}
}

func ratio(v *float64) text { return number(state.Known(v), cell.Percent) }

func perSecond(v *float64) text { return number(state.Known(v), cell.Count) }

func preemptions(e *control.Engine) text {
	if e.Preemptions60s == nil {
		return text{s: cell.Unknown}
	}
	return count(int(*e.Preemptions60s))
}

func quantile(q *control.Quantiles, which func(*control.Quantiles) float64) text {
	if q == nil {
		return text{s: cell.Unknown}
	}
	return text{s: cell.Seconds(which(q))}
}

// scraped reads an engine figure; old ones are drawn as such.
func scraped(l line, figure func(*control.Engine) text) text {
	if l.Engine == nil {
		return text{s: cell.Unknown}
	}
	out := figure(l.Engine)
	if l.stale {
		out.role = dim
	}
	return out
}

func sum(ls []line, figure func(line) int) int {
	n := 0
	for _, l := range ls {
		n += figure(l)
	}
	return n
}

// engineSum adds up what is known and fresh.
func engineSum(ls []line, figure func(*control.Engine) float64) text {
	out := cell.Gap()
	for _, l := range ls {
		if l.Engine != nil && !l.stale {
			if v := figure(l.Engine); !math.IsNaN(v) {
				out = state.OrZero(out) + v
			}
		}
	}
	return number(out, cell.Count)
}

func allGPUs(ls []line) []control.GPU {
	var out []control.GPU
	for _, l := range ls {
		out = append(out, l.gpus...)
	}
	return out
}

// gpuName is "0 A4000", or "0-3 A4000" for a group.
func gpuName(gs []control.GPU) string {
	if len(gs) == 0 {
		return cell.Unknown
	}
	indices := strconv.Itoa(gs[0].Index)
	if len(gs) > 1 {
		indices += "-" + strconv.Itoa(gs[len(gs)-1].Index)
	}
	return indices + " " + shortName(gs[0].Name)
}

// gpuNameWidth is what the GPU column has for a name.
const gpuNameWidth = 9

// shortName drops what every card of a maker is called, and then last words until it fits.
func shortName(name string) string {
	for _, prefix := range []string{"NVIDIA ", "GeForce ", "RTX "} {
		name = strings.TrimPrefix(name, prefix)
	}
	for len(name) > gpuNameWidth {
		i := strings.LastIndexByte(name, ' ')
		if i <= 0 {
			break
		}
		name = name[:i]
	}
	return name
}

// gather reads one figure of several GPUs: n known ones, their sum and largest.
func gather(gs []control.GPU, figure func(control.GPU) *float64) (n int, total, largest float64) {
	for _, g := range gs {
		if v := figure(g); v != nil {
			n, total, largest = n+1, total+*v, max(largest, *v)
		}
	}
	return n, total, largest
}

func memory(gs []control.GPU) text {
	n, total, _ := gather(gs, func(g control.GPU) *float64 {
		if g.MemoryUsedBytes == nil {
			return nil
		}
		v := float64(*g.MemoryUsedBytes)
		return &v
	})
	if n == 0 {
		return text{s: cell.Unknown}
	}
	return text{s: cell.Bytes(uint64(total))}
}

func utilization(gs []control.GPU) text {
	n, total, _ := gather(gs, func(g control.GPU) *float64 { return g.Utilization })
	if n == 0 {
		return text{s: cell.Unknown}
	}
	return text{s: cell.Percent(total / float64(n))}
}

func power(gs []control.GPU) text {
	n, total, _ := gather(gs, func(g control.GPU) *float64 { return g.PowerWatts })
	if n == 0 {
		return text{s: cell.Unknown}
	}
	return text{s: cell.Count(total)}
}

func temperature(gs []control.GPU) text {
	n, _, largest := gather(gs, func(g control.GPU) *float64 { return g.TemperatureC })
	if n == 0 {
		return text{s: cell.Unknown}
	}
	return text{s: cell.Count(largest)}
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
