package benchpath

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
)

// column is one column of the tables; one that holds nothing is left out.
type column struct {
	title  string
	value  func(Row) *float64
	format string
}

func columns() []column {
	return []column{
		{"first byte p50, ms", func(r Row) *float64 { return r.FirstByteP50 }, "%.2f"},
		{"added", func(r Row) *float64 { return r.AddedFirstByteP50 }, "%.2f"},
		{"x none", func(r Row) *float64 { return r.FirstByteToNone }, "%.1f"},
		{"first byte p99, ms", func(r Row) *float64 { return r.FirstByteP99 }, "%.2f"},
		{"added", func(r Row) *float64 { return r.AddedFirstByteP99 }, "%.2f"},
		{"event delay p50, ms", func(r Row) *float64 { return r.DelayP50 }, "%.3f"},
		{"added", func(r Row) *float64 { return r.AddedDelayP50 }, "%.3f"},
		{"x none", func(r Row) *float64 { return r.DelayToNone }, "%.1f"},
		{"event delay p99, ms", func(r Row) *float64 { return r.DelayP99 }, "%.2f"},
		{"added", func(r Row) *float64 { return r.AddedDelayP99 }, "%.2f"},
		{"proxy CPU, ms / 1,000 requests", func(r Row) *float64 { return r.CPUPerRequests }, "%.0f"},
		{"proxy CPU, ms / 100,000 events", func(r Row) *float64 { return r.CPUPerEvents }, "%.0f"},
		{"CPU x HAProxy", func(r Row) *float64 { return r.CPUToHAProxy }, "%.2f"},
		{"events/s", func(r Row) *float64 { return positive(r.EventsRate) }, "%.0f"},
		{"events of those due", func(r Row) *float64 { return r.Pace }, "%.2f"},
		{"memory / stream, KiB", func(r Row) *float64 { return per(r.RSSPerStream, 1<<10, 1) }, "%.1f"},
		{"goroutines / stream", func(r Row) *float64 { return r.Goroutines }, "%.2f"},
		{"failed", func(r Row) *float64 { return of(float64(r.Failed)) }, "%.0f"},
	}
}

func positive(v *float64) *float64 {
	if v == nil || *v == 0 {
		return nil
	}
	return v
}

// WriteMarkdown writes the report for people.
func (r Report) WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	rows := r.Rows()
	r.writeHead(&b)
	r.writeSummary(&b, rows)
	r.writeBars(&b)
	r.writeIdle(&b)
	for len(rows) > 0 {
		n := slices.IndexFunc(rows, func(x Row) bool { return x.Work != rows[0].Work })
		if n < 0 {
			n = len(rows)
		}
		fmt.Fprintf(&b, "\n## %s\n\n", rows[0].Work)
		writeRows(&b, rows[:n])
		rows = rows[n:]
	}
	_, err := io.WriteString(w, b.String())
	return err
}

const explanation = `%d rounds, every proxy started anew for each, the arms in turn under each work, figures are medians of the rounds. Clients,
engines and proxies share the cores. Two engines (processes that answer at once) for every arm: over unix sockets to HAProxy,
nginx and warden, over TCP to the others, which know no sockets. "Bare copy" is a thread that reads what has come on one
connection and writes it to another, and knows no HTTP: the floor of a proxy that makes two system calls an event. "Added" is an arm's percentile less that of no proxy in the
same round; each event carries the time of its sending. CPU is the time of the proxy's processes in the window, user and system,
less what the same proxy takes idle; of warden its own process, since engines and their shims are nobody else's either. Streams
at a pace are read in a window in which none begins or ends; memory is the resident set against that of the fresh proxy.
`

func (r Report) writeHead(b *strings.Builder) {
	fmt.Fprintf(b, "# The cost of a proxy in the path\n\nBegun %s. ", r.Started.Format("2006-01-02 15:04 MST"))
	r.Machine.WriteMarkdown(b)
	fmt.Fprintf(b, explanation, r.Rounds)
	for _, a := range r.Absent {
		fmt.Fprintf(b, "\nAbsent: %s (%s).\n", a.What, a.Why)
	}
}

// writeSummary is the one table for those who read no other.
func (r Report) writeSummary(b *strings.Builder, rows []Row) {
	k := r.keys(rows)
	columns := []struct {
		title string
		is    func(Row) bool
		column
	}{
		{"CPU, ms / 100,000 events", k.events, column{value: Row.cpu, format: "%.0f"}},
		{"CPU, ms / 1,000 requests of 60 kB", k.body, column{value: Row.cpu, format: "%.0f"}},
		{"added to first byte p50, ms", k.first, column{value: func(r Row) *float64 { return r.AddedFirstByteP50 }, format: "%.2f"}},
		{"p99", k.first, column{value: func(r Row) *float64 { return r.AddedFirstByteP99 }, format: "%.1f"}},
		{"added to an event p50, ms", k.quiet, column{value: func(r Row) *float64 { return r.AddedDelayP50 }, format: "%.2f"}},
		{"memory / quiet stream, KiB", k.quiet, column{value: func(r Row) *float64 { return per(r.RSSPerStream, 1<<10, 1) }, format: "%.0f"}},
		{"goroutines", k.quiet, column{value: func(r Row) *float64 { return r.Goroutines }, format: "%.1f"}},
	}
	fmt.Fprintf(b, "\n## Summary\n\nCPU of the proxy's processes; events: %s; first byte: %d streams with bodies of %s; quiet: %s.\n\n",
		cmp.Or(r.eventsWork(rows), "not measured"), firstByteLoad, size(agentBody), quietWork(quietStreams))
	titles, rule := []string{"proxy"}, []string{"---"}
	for _, c := range columns {
		titles, rule = append(titles, c.title), append(rule, "---")
	}
	line(b, titles...)
	line(b, rule...)
	for _, a := range r.Arms {
		if a.Name == noneName {
			continue
		}
		cells := []string{a.Name}
		for _, c := range columns {
			row, _ := k.find(a.Name, c.is)
			cells = append(cells, show(c.format, c.value(row)))
		}
		line(b, cells...)
	}
}

func (r Report) writeBars(b *strings.Builder) {
	b.WriteString("\n## Bars\n\n")
	line(b, "bar", "on", "limit", "value", "a bare copy's", "")
	line(b, "---", "---", "---", "---", "---", "---")
	for _, bar := range r.Bars() {
		verdict := "missed"
		switch {
		case bar.Value == nil:
			verdict = "not measured"
		case bar.Met:
			verdict = "met"
		}
		line(b, bar.Name, bar.On, bar.Limit, show("%.2f", bar.Value), show("%.2f", bar.Floor), verdict)
	}
}

func (r Report) writeIdle(b *strings.Builder) {
	b.WriteString("\n## Idle\n\n")
	line(b, "arm", "CPU, ms/s", "memory, MiB")
	line(b, "---", "---", "---")
	for _, a := range r.Arms {
		var cpu, rss []*float64
		for _, i := range r.Idle {
			if i.Arm == a.Name {
				cpu, rss = append(cpu, of(1e3*i.CPUSeconds)), append(rss, of(float64(i.RSSBytes)/(1<<20)))
			}
		}
		if len(cpu) > 0 {
			line(b, a.Name, show("%.1f", median(cpu)), show("%.0f", median(rss)))
		}
	}
}

func writeRows(b *strings.Builder, rows []Row) {
	used := slices.DeleteFunc(columns(), func(c column) bool {
		return !slices.ContainsFunc(rows, func(r Row) bool { return c.value(r) != nil })
	})
	titles, rule := []string{"arm"}, []string{"---"}
	for _, c := range used {
		titles, rule = append(titles, c.title), append(rule, "---")
	}
	line(b, titles...)
	line(b, rule...)
	for _, r := range rows {
		cells := []string{r.Arm}
		for _, c := range used {
			cells = append(cells, show(c.format, c.value(r)))
		}
		line(b, cells...)
	}
	for _, r := range rows {
		if r.Failed > 0 {
			fmt.Fprintf(b, "\n%s: %d of %d failed, the first: %s\n", r.Arm, r.Failed, r.Requests, strings.Join(strings.Fields(r.FirstFailure), " "))
		}
	}
}

func show(format string, v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf(format, *v)
}

func line(b *strings.Builder, cells ...string) {
	b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
}
