package benchpath

import (
	"fmt"
	"math"
	"slices"
)

// Bar is a figure that warden holds itself to.
type Bar struct {
	Name  string `json:"name"`
	On    string `json:"work"`
	Limit string `json:"limit"`
	// Value is nil where it was not measured.
	Value *float64 `json:"value"`
	// Floor is what a bare copy gets on the same scale: one above the limit shows
	// that no proxy meets it here. nil where that was not measured.
	Floor *float64 `json:"floor"`
	Met   bool     `json:"met"`
}

// keptPace is how far the share of due events may be from 1 for the machine to
// count as having kept pace: else events came in bunches, before or in the
// window, which flatters whoever is late.
const keptPace = 0.05

// The bars. CPU: what reading events and bodies may cost beside a proxy that
// does not read them, and beside those that do.
const (
	eventsToHAProxy = 1.2
	eventsToRouters = 0.5
	bodiesToHAProxy = 2.0
	bodiesToRouters = 1.0

	quietStreams   = 1000 // figure 13
	manyStreams    = 5000
	quietDelay     = 5.0 // ms added, p50
	memoryOfMany   = 60 << 10
	memoryOfQuiet  = 32 << 10
	goroutinesEach = 2.0

	firstByteP50 = 1.0 // ms added: figure 14
	firstByteP99 = 5.0
)

// Bars holds warden against them.
func (r Report) Bars() []Bar {
	rows := r.Rows()
	k := r.keys(rows)
	find := func(arm string, is func(Row) bool) Row {
		if row, ok := k.find(arm, is); ok {
			return row
		}
		return Row{Work: "not measured"}
	}
	e, b := find(wardenName, k.events), find(wardenName, k.body)
	q, m, f := find(wardenName, k.quiet), find(wardenName, k.many), find(wardenName, k.first)
	var failed *float64
	if m.Rounds > 0 {
		failed = of(float64(m.Failed))
	}
	floorE, floorB := find(copyName, k.events).cpu(), find(copyName, k.body).cpu()
	times := func(name string, row Row, of, floor *float64, limit float64) Bar {
		bar := atMost(name, row, ratio(row.cpu(), of), limit, "")
		bar.Floor = ratio(floor, of)
		return bar
	}
	return []Bar{
		times("CPU per event, times HAProxy's", e, find(haproxyName, k.events).cpu(), floorE, eventsToHAProxy),
		times("CPU per event, times the cheapest LLM router's", e, r.cheapest(rows, k.events), floorE, eventsToRouters),
		times("CPU per request with 60 kB, times HAProxy's", b, find(haproxyName, k.body).cpu(), floorB, bodiesToHAProxy),
		times("CPU per request with 60 kB, times the cheapest LLM router's", b, r.cheapest(rows, k.body), floorB, bodiesToRouters),
		atMost("goroutines per quiet stream", q, q.Goroutines, goroutinesEach, ""),
		atMost("memory per quiet stream", q, per(q.RSSPerStream, 1<<10, 1), memoryOfQuiet>>10, " KiB"),
		atMost("figure 13: failed streams", m, failed, 0, ""),
		atMost("figure 13: added delay per event p50", q, q.AddedDelayP50, quietDelay, " ms"),
		atMost("figure 13: memory per stream", m, per(m.RSSPerStream, 1<<10, 1), memoryOfMany>>10, " KiB"),
		atMost("figure 14: added time to first byte p50", f, f.AddedFirstByteP50, firstByteP50, " ms"),
		atMost("figure 14: added time to first byte p99", f, f.AddedFirstByteP99, firstByteP99, " ms"),
	}
}

// keys are the works that the bars and the summary look at.
type keys struct {
	rows                             []Row
	events, body, quiet, many, first func(Row) bool
}

func (r Report) keys(rows []Row) keys {
	events := r.eventsWork(rows)
	at := func(n int) func(Row) bool { return func(x Row) bool { return x.Work == quietWork(n) } }
	return keys{
		rows:   rows,
		events: func(x Row) bool { return x.Work == events },
		body:   func(x Row) bool { return x.Kind == bodies && x.Bytes == agentBody },
		quiet:  at(quietStreams),
		many:   at(manyStreams),
		first:  func(x Row) bool { return x.Kind == loop && x.Streams == firstByteLoad },
	}
}

func (k keys) find(arm string, is func(Row) bool) (Row, bool) {
	at := slices.IndexFunc(k.rows, func(x Row) bool { return x.Arm == arm && is(x) })
	if at < 0 {
		return Row{}, false
	}
	return k.rows[at], true
}

func atMost(name string, row Row, value *float64, limit float64, unit string) Bar {
	return Bar{Name: name, On: row.Work, Limit: fmt.Sprintf("<= %g%s", limit, unit), Value: value, Met: value != nil && *value <= limit}
}

func quietWork(n int) string {
	return work{Kind: paced, Streams: n, Script: script{Interval: quietInterval}}.String()
}

// eventsWork is the largest load of paced streams of 200 events with which the
// machine kept pace through every proxy.
func (r Report) eventsWork(rows []Row) string {
	best, streams := "", 0
	for _, row := range rows {
		if row.Kind != paced || row.Streams <= streams || row.Work == quietWork(row.Streams) {
			continue
		}
		worst := 0.0
		for _, other := range rows {
			if other.Work == row.Work && other.Pace != nil {
				worst = max(worst, math.Abs(*other.Pace-1))
			}
		}
		if row.CPUPerEvents != nil && worst <= keptPace {
			best, streams = row.Work, row.Streams
		}
	}
	return best
}

// cheapest is the least CPU of the other LLM routers.
func (r Report) cheapest(rows []Row, is func(Row) bool) *float64 {
	var least *float64
	for _, row := range rows {
		other := slices.ContainsFunc(r.Arms, func(a Arm) bool { return a.Name == row.Arm && a.LLM && a.Name != wardenName })
		if c := row.cpu(); other && is(row) && c != nil && (least == nil || *c < *least) {
			least = c
		}
	}
	return least
}
