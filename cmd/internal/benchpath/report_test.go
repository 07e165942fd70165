package benchpath

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/lm-warden/warden/cmd/internal/proxies"
)

func pacedCell(streams int, every time.Duration, arm string, round int, cpu float64, delay float64) Cell {
	w := work{Kind: paced, Streams: streams, BodyBytes: smallBody, Script: script{Interval: every}}
	c := Cell{
		Work: w.String(), Kind: paced, Streams: streams, BodyBytes: smallBody, Arm: arm, Round: round, Requests: streams,
		DelayP50: of(delay), WindowSeconds: 2, Events: 10_000, Pace: of(1), FirstByteP50: of(10 * delay),
	}
	if arm != noneName {
		c.CPUSeconds, c.RSSPerStream = of(cpu), of(40<<10)
	}
	return c
}

func bodiesCell(arm string, cpu float64) Cell {
	w := work{Kind: bodies, Streams: bodyClients, BodyBytes: agentBody}
	return Cell{Work: w.String(), Kind: bodies, Streams: bodyClients, BodyBytes: agentBody, Arm: arm, Requests: 210, WindowRequests: 200, WindowSeconds: 2, CPUSeconds: of(cpu)}
}

func sampleReport() Report {
	r := Report{
		Machine: proxies.Machine{CPU: "a chip", Cores: []int{0, 1}, Versions: map[string]string{"go": "go1"}}, Rounds: 3,
		Arms:   []Arm{{noneName, false}, {wardenName, true}, {haproxyName, false}, {copyName, false}, {"a", true}, {"b", true}},
		Absent: []Absent{{"nginx", "nginx is not installed"}},
		Idle:   []Idle{{wardenName, 0, 0.004, 20 << 20}, {wardenName, 1, 0.002, 22 << 20}},
	}
	for round, factor := range []float64{1, 5, 2} { // medians are those of factor 2
		r.Cells = append(r.Cells,
			pacedCell(64, streamInterval, noneName, round, 0, 0.1*factor),
			pacedCell(64, streamInterval, wardenName, round, 0.15*factor, 0.3*factor),
			pacedCell(64, streamInterval, haproxyName, round, 0.1*factor, 0.2*factor),
			pacedCell(64, streamInterval, copyName, round, 0.05*factor, 0.2*factor),
			pacedCell(64, streamInterval, "a", round, 0.5*factor, 0.2*factor),
			pacedCell(64, streamInterval, "b", round, 0.4*factor, 0.2*factor),
		)
	}
	late := pacedCell(256, streamInterval, haproxyName, 0, 0.1, 1)
	late.Pace = of(0.7)
	quiet := pacedCell(quietStreams, quietInterval, wardenName, 0, 0.1, 6)
	quiet.Goroutines, quiet.Failed, quiet.FirstFailure = of(1.5), 2, "connection\nreset"
	r.Cells = append(r.Cells, pacedCell(256, streamInterval, wardenName, 0, 9, 1), late,
		pacedCell(quietStreams, quietInterval, noneName, 0, 0, 0.5), quiet,
		bodiesCell(wardenName, 0.04), bodiesCell(haproxyName, 0.01), bodiesCell("a", 0.08))
	return r
}

func near(v *float64, want float64) bool { return v != nil && math.Abs(*v-want) < 1e-9 }

func TestRows(t *testing.T) {
	rows := sampleReport().Rows()
	row := rows[1]
	if row.Arm != wardenName || row.Work != "64 streams at 50 events/s" || row.Rounds != 3 || row.Requests != 192 {
		t.Fatalf("%+v", row)
	}
	// 0.3 s of CPU for 10,000 events: 3,000 ms for 100,000.
	if !near(row.CPUPerEvents, 3000) || row.CPUPerRequests != nil || !near(row.CPUToHAProxy, 1.5) || !near(row.EventsRate, 5000) {
		t.Errorf("CPU %s a 100,000 events, %s x HAProxy, %s events/s", text(row.CPUPerEvents), text(row.CPUToHAProxy), text(row.EventsRate))
	}
	// Differences and ratios are taken in each round, then their median.
	if !near(row.DelayP50, 0.6) || !near(row.AddedDelayP50, 0.4) || !near(row.DelayToNone, 3) || !near(row.AddedFirstByteP50, 4) || row.AddedDelayP99 != nil {
		t.Errorf("delay %s, added %s, x none %s, first byte %s", text(row.DelayP50), text(row.AddedDelayP50), text(row.DelayToNone), text(row.AddedFirstByteP50))
	}
	if rows[0].Arm != noneName || rows[0].AddedDelayP50 != nil || rows[0].CPUToHAProxy != nil {
		t.Errorf("no proxy adds something: %+v", rows[0])
	}
	last := rows[len(rows)-3]
	// 0.04 s for 200 requests: 200 ms for 1,000.
	if last.Arm != wardenName || !near(last.CPUPerRequests, 200) || last.CPUPerEvents != nil || !near(last.CPUToHAProxy, 4) {
		t.Errorf("%+v", last)
	}
}

func TestBars(t *testing.T) {
	got := map[string]Bar{}
	for _, b := range sampleReport().Bars() {
		got[b.Name] = b
	}
	for name, want := range map[string]struct {
		value *float64
		met   bool
	}{
		// Of 256 streams HAProxy's came in bunches, so 64 count.
		"CPU per event, times HAProxy's":                              {of(1.5), false},
		"CPU per event, times the cheapest LLM router's":              {of(0.375), true},
		"CPU per request with 60 kB, times HAProxy's":                 {of(4), false},
		"CPU per request with 60 kB, times the cheapest LLM router's": {of(0.5), true},
		"goroutines per quiet stream":                                 {of(1.5), true},
		"memory per quiet stream":                                     {of(40), false},
		"figure 13: added delay per event p50":                        {of(5.5), false},
		"figure 13: failed streams":                                   {nil, false},
		"figure 14: added time to first byte p50":                     {nil, false},
	} {
		b, ok := got[name]
		same := want.value == nil && b.Value == nil || want.value != nil && near(b.Value, *want.value)
		if !ok || !same || b.Met != want.met {
			t.Errorf("%s on %q: %s, met %v; want %s, %v", name, b.On, text(b.Value), b.Met, text(want.value), want.met)
		}
	}
}

func TestMarkdownAndJSON(t *testing.T) {
	r := sampleReport()
	var md, js bytes.Buffer
	if err := r.WriteMarkdown(&md); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"a chip, 2 cores used", "Absent: nginx (nginx is not installed).",
		"\n| warden | 3000 | 200 | - | - | 5.50 | 40 | 1.5 |\n", "\n| a | 10000 | 400 | - |",
		"| CPU per event, times HAProxy's | 64 streams at 50 events/s | <= 1.2 | 1.50 | 0.50 | missed |",
		"| goroutines per quiet stream | 1000 streams at 4 events/s | <= 2 | 1.50 | - | met |",
		"| figure 13: failed streams | not measured | <= 0 | - | - | not measured |",
		"| warden | 3.0 | 21 |", "## bodies of 60 kB, 4 clients", "warden: 2 of 1000 failed, the first: connection reset",
	} {
		if !strings.Contains(md.String(), want) {
			t.Errorf("no %q in\n%s", want, md.String())
		}
	}
	if err := r.WriteJSON(&js); err != nil {
		t.Fatal(err)
	}
	var back struct {
		Cells   []Cell `json:"cells"`
		Medians []Row  `json:"medians"`
		Bars    []Bar  `json:"bars"`
	}
	if err := json.Unmarshal(js.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	if len(back.Cells) != len(r.Cells) || len(back.Medians) != len(r.Rows()) || len(back.Bars) != len(r.Bars()) {
		t.Errorf("%d cells, %d medians, %d bars", len(back.Cells), len(back.Medians), len(back.Bars))
	}
	for _, unit := range []string{"proxy_cpu_milliseconds_per_100000_events", "rss_bytes_per_stream", "first_byte_milliseconds_p99", "load_average_before"} {
		if !strings.Contains(js.String(), `"`+unit+`"`) {
			t.Errorf("no %s", unit)
		}
	}
}

func TestWorks(t *testing.T) {
	all := works(Defaults())
	var names []string
	for i, w := range all {
		names = append(names, w.String())
		if i > 0 && w.Kind == paced && w.Streams < all[i-1].Streams {
			t.Errorf("%s after %s: its memory would not show", w, all[i-1])
		}
		// The window must be open for a while, with every stream in it.
		if whole := w.Script.Interval * time.Duration(w.Script.Events); w.Kind == paced && ramp(w.Streams)+2*settle+time.Second > whole {
			t.Errorf("%s: streams of %v, started over %v", w, whole, ramp(w.Streams))
		}
	}
	want := "1 stream at 50 events/s; 64 streams at 50 events/s; 256 streams at 50 events/s; 1000 streams at 4 events/s; " +
		"1000 streams at 50 events/s; 5000 streams at 4 events/s; 128 streams one after another, bodies of 60 kB; " +
		"16 streams as fast as they go; bodies of 1024 B, 4 clients; bodies of 60 kB, 4 clients; bodies of 1 MiB, 4 clients; bodies of 8 MiB, 4 clients"
	if got := strings.Join(names, "; "); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if got := works(Options{}); len(got) != 0 {
		t.Errorf("nothing asked for: %v", got)
	}
}
