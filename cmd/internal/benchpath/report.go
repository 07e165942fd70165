package benchpath

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/lm-warden/warden/cmd/internal/proxies"
)

// Report is everything that a run found.
type Report struct {
	Started       time.Time       `json:"started"`
	Machine       proxies.Machine `json:"machine"`
	Rounds        int             `json:"rounds"`
	WindowSeconds float64         `json:"window_seconds"`
	Arms          []Arm           `json:"arms"`
	Absent        []Absent        `json:"absent"`
	Idle          []Idle          `json:"idle"`
	Cells         []Cell          `json:"cells"`
}

// Arm is one of the things compared.
type Arm struct {
	Name string `json:"name"`
	LLM  bool   `json:"llm_router"` // it reads bodies
}

// Absent is what could not be measured.
type Absent struct {
	What string `json:"what"`
	Why  string `json:"why"`
}

// Idle is a proxy that has nothing to do.
type Idle struct {
	Arm        string  `json:"arm"`
	Round      int     `json:"round"`
	CPUSeconds float64 `json:"cpu_seconds_per_second"`
	RSSBytes   int64   `json:"rss_bytes"`
}

func (r *Report) leaveOut(what, why string) {
	a := Absent{what, why}
	if !slices.ContainsFunc(r.Absent, func(b Absent) bool { return b.What == what }) {
		r.Absent = append(r.Absent, a)
	}
}

// WriteJSON writes the report for machines, with the medians and the bars.
func (r Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(struct {
		Report
		Rows []Row `json:"medians"`
		Bars []Bar `json:"bars"`
	}{r, r.Rows(), r.Bars()})
}

// Row is one arm under one work, each figure the median of its rounds. Added
// figures are those of the arm less those of no proxy in the same round: of the
// percentiles, since no request went both ways.
type Row struct {
	Work    string `json:"work"`
	Kind    string `json:"kind"`
	Streams int    `json:"streams"`
	Bytes   int    `json:"body_bytes"`
	Arm     string `json:"arm"`
	Rounds  int    `json:"rounds"`

	Requests     int    `json:"requests"`
	Failed       int    `json:"failed"`
	FirstFailure string `json:"first_failure,omitempty"`

	FirstByteP50      *float64 `json:"first_byte_milliseconds_p50"`
	FirstByteP99      *float64 `json:"first_byte_milliseconds_p99"`
	AddedFirstByteP50 *float64 `json:"added_first_byte_milliseconds_p50"`
	AddedFirstByteP99 *float64 `json:"added_first_byte_milliseconds_p99"`
	FirstByteToNone   *float64 `json:"first_byte_p50_ratio_to_none"`
	DelayP50          *float64 `json:"event_delay_milliseconds_p50"`
	DelayP99          *float64 `json:"event_delay_milliseconds_p99"`
	AddedDelayP50     *float64 `json:"added_event_delay_milliseconds_p50"`
	AddedDelayP99     *float64 `json:"added_event_delay_milliseconds_p99"`
	DelayToNone       *float64 `json:"event_delay_p50_ratio_to_none"`

	CPUPerRequests *float64 `json:"proxy_cpu_milliseconds_per_1000_requests"`
	CPUPerEvents   *float64 `json:"proxy_cpu_milliseconds_per_100000_events"`
	CPUToHAProxy   *float64 `json:"proxy_cpu_ratio_to_haproxy"`
	EventsRate     *float64 `json:"events_per_second"`
	Pace           *float64 `json:"events_ratio_to_pace"`
	RSSPerStream   *float64 `json:"rss_bytes_per_stream"`
	Goroutines     *float64 `json:"goroutines_per_stream"`
}

// Rows are the medians of all works and arms, in the order of measurement and
// of the arms.
func (r Report) Rows() []Row {
	var out []Row
	var done []string
	for _, c := range r.Cells {
		if slices.Contains(done, c.Work) {
			continue
		}
		done = append(done, c.Work)
		first := len(out)
		for _, a := range r.Arms {
			if row := r.row(c.Work, a.Name); row.Rounds > 0 {
				out = append(out, row)
			}
		}
		rows := out[first:]
		if at := slices.IndexFunc(rows, func(x Row) bool { return x.Arm == haproxyName }); at >= 0 {
			for i := range rows {
				rows[i].CPUToHAProxy = ratio(rows[i].cpu(), rows[at].cpu())
			}
		}
	}
	return out
}

// cpu is the one of the two figures that the work has.
func (r Row) cpu() *float64 {
	if r.CPUPerEvents != nil {
		return r.CPUPerEvents
	}
	return r.CPUPerRequests
}

// pair is a cell and that of no proxy in the same round.
type pair struct{ cell, none Cell }

func (r Report) row(work, arm string) Row {
	row := Row{Work: work, Arm: arm}
	var pairs []pair
	for _, c := range r.Cells {
		if c.Work != work || c.Arm != arm {
			continue
		}
		row.Kind, row.Streams, row.Bytes = c.Kind, c.Streams, c.BodyBytes
		row.Rounds++
		row.Requests += c.Requests
		if row.Failed += c.Failed; row.FirstFailure == "" {
			row.FirstFailure = c.FirstFailure
		}
		p := pair{cell: c}
		for _, n := range r.Cells {
			if n.Work == work && n.Arm == noneName && n.Round == c.Round {
				p.none = n
			}
		}
		pairs = append(pairs, p)
	}
	middle := func(of func(pair) *float64) *float64 {
		var all []*float64
		for _, p := range pairs {
			all = append(all, of(p))
		}
		return median(all)
	}
	row.FirstByteP50 = middle(func(p pair) *float64 { return p.cell.FirstByteP50 })
	row.FirstByteP99 = middle(func(p pair) *float64 { return p.cell.FirstByteP99 })
	row.DelayP50 = middle(func(p pair) *float64 { return p.cell.DelayP50 })
	row.DelayP99 = middle(func(p pair) *float64 { return p.cell.DelayP99 })
	row.Pace = middle(func(p pair) *float64 { return p.cell.Pace })
	row.RSSPerStream = middle(func(p pair) *float64 { return p.cell.RSSPerStream })
	row.Goroutines = middle(func(p pair) *float64 { return p.cell.Goroutines })
	row.CPUPerRequests, row.CPUPerEvents = middle(pair.cpuPerRequests), middle(pair.cpuPerEvents)
	row.EventsRate = middle(func(p pair) *float64 { return per(of(float64(p.cell.Events)), p.cell.WindowSeconds, 1) })
	if arm != noneName {
		row.AddedFirstByteP50 = middle(func(p pair) *float64 { return minus(p.cell.FirstByteP50, p.none.FirstByteP50) })
		row.AddedFirstByteP99 = middle(func(p pair) *float64 { return minus(p.cell.FirstByteP99, p.none.FirstByteP99) })
		row.FirstByteToNone = middle(func(p pair) *float64 { return ratio(p.cell.FirstByteP50, p.none.FirstByteP50) })
		row.AddedDelayP50 = middle(func(p pair) *float64 { return minus(p.cell.DelayP50, p.none.DelayP50) })
		row.AddedDelayP99 = middle(func(p pair) *float64 { return minus(p.cell.DelayP99, p.none.DelayP99) })
		row.DelayToNone = middle(func(p pair) *float64 { return ratio(p.cell.DelayP50, p.none.DelayP50) })
	}
	return row
}

// Milliseconds, of a window in which nothing but events happened or few
// requests did.
func (p pair) cpuPerEvents() *float64 {
	if p.cell.Kind != paced && p.cell.Kind != fast {
		return nil
	}
	return per(p.cell.CPUSeconds, float64(p.cell.Events), 1e3*1e5)
}

// Milliseconds, with all that the answers took.
func (p pair) cpuPerRequests() *float64 {
	if p.cell.Kind != bodies && p.cell.Kind != loop {
		return nil
	}
	return per(p.cell.CPUSeconds, float64(p.cell.WindowRequests), 1e3*1e3)
}

// brief is a cell in one line.
func (c Cell) brief() string {
	p := pair{cell: c}
	var parts []string
	add := func(format string, v *float64) {
		if v != nil {
			parts = append(parts, fmt.Sprintf(format, *v))
		}
	}
	add("first byte p50 %.2f ms", c.FirstByteP50)
	add("event delay p50 %.3f ms", c.DelayP50)
	add("CPU %.0f ms/1,000 requests", p.cpuPerRequests())
	add("CPU %.0f ms/100,000 events", p.cpuPerEvents())
	add("pace %.2f", c.Pace)
	add("%.0f B/stream", c.RSSPerStream)
	add("%.2f goroutines/stream", c.Goroutines)
	if c.Failed > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d failed: %s", c.Failed, c.Requests, c.FirstFailure))
	}
	return strings.Join(parts, ", ")
}
