package load

import (
	"context"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

var begin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// turnAt is a turn that began and ended that many seconds after the run did.
func turnAt(replica string, from, to float64) Turn {
	at := func(s float64) time.Time { return begin.Add(time.Duration(s * float64(time.Second))) }
	return Turn{N: 1, Replica: replica, Began: at(from), Total: at(to).Sub(at(from)), TTFB: time.Second, TTFT: time.Second, CachedTokens: -1}
}

func TestBusyReplicasCountsOverlapsOnce(t *testing.T) {
	run := &recorder{started: begin, ended: begin.Add(10 * time.Second), turns: []Turn{
		turnAt("r0", 0, 4), turnAt("r0", 2, 5), turnAt("r0", 3, 4), // 5 s
		turnAt("r1", 1, 2), turnAt("r1", 6, 8), // 3 s
		turnAt("", 0, 10), // no warden in front: nobody knows
	}, cut: []Turn{turnAt("r1", 9, 10)}} // 1 s
	got, err := measured(4, run).Report()
	if err != nil {
		t.Fatal(err)
	}
	if got.BusyReplicas == nil || math.Abs(*got.BusyReplicas-0.9) > 1e-9 {
		t.Errorf("busy replicas %v, want 0.9", *got.BusyReplicas)
	}
	if got.TurnsCut != 1 || got.CachedShare != nil {
		t.Errorf("%+v", got)
	}
}

func TestRoundsAreTakenTogether(t *testing.T) {
	first := &recorder{started: begin, ended: begin.Add(time.Minute), turns: []Turn{turnAt("r0", 0, 1)}}
	second := &recorder{started: begin, ended: begin.Add(3 * time.Minute), turns: []Turn{turnAt("r0", 0, 1), turnAt("r1", 0, 1), turnAt("r1", 2, 3)}}
	both, err := measured(4, first).With(measured(4, second)).Report()
	if err != nil {
		t.Fatal(err)
	}
	if both.Sessions != 4 || both.Seconds != 240 || both.TurnsPerMinute != 1 || both.Replicas != 2 {
		t.Errorf("%+v", both)
	}
}

func TestTables(t *testing.T) {
	share, second := 0.5, 1.25
	off := Named{"affinity off", Report{Sessions: 8, SessionsPerHour: 300, OutputTokensPerMin: 8364, TTFBp50: &second}, nil}
	on := Named{"affinity on", Report{Sessions: 8, SessionsPerHour: 380.4, CachedShare: &share}, nil}
	var rows, pairs strings.Builder
	if err := WriteTable(&rows, []Named{off, on}); err != nil {
		t.Fatal(err)
	}
	want := "" +
		"SETTING       SESSIONS  SESSIONS/H  TOKENS/MIN  TTFB P50  TTFB P95  TTFT P50  BUSY  HITS   STAYED  FAILED\n" +
		"affinity off  8         300         8364        1.25s     -         -         -     -      -       0\n" +
		"affinity on   8         380         0           -         -         -         -     50.0%  -       0\n"
	if rows.String() != want {
		t.Errorf("table:\n%s\nwant:\n%s", rows.String(), want)
	}
	if err := WriteComparison(&pairs, []Pair{{off, on}}); err != nil {
		t.Fatal(err)
	}
	for _, cell := range []string{"300 -> 380", "1.25s -> -", "- -> 50.0%"} {
		if !strings.Contains(pairs.String(), cell) {
			t.Errorf("the comparison lacks %q:\n%s", cell, pairs.String())
		}
	}
}

func TestPlot(t *testing.T) {
	run := &recorder{started: begin, ended: begin.Add(8 * time.Second)}
	for i, ttft := range []int{1, 2, 0, 3} { // seconds; 0: the slice has no turn
		if ttft > 0 {
			turn := turnAt("r0", float64(2*i), float64(2*i+1))
			turn.TTFT = time.Duration(ttft) * time.Second
			run.turns = append(run.turns, turn)
		}
	}
	curve := measured(1, run).Curve("affinity on", 4)
	var ascii, blocks strings.Builder
	if err := WritePlot(&ascii, []Curve{curve}, true); err != nil {
		t.Fatal(err)
	}
	want := "" +
		"TTFT p50, affinity on\n" +
		"  3.00s |   #\n" +
		"        |   #\n" +
		"        | # #\n" +
		"        | # #\n" +
		"        |## #\n" +
		"        |## #\n" +
		"  0.00s +----\n" +
		"         0s8s\n"
	if ascii.String() != want {
		t.Errorf("plot:\n%s\nwant:\n%s", ascii.String(), want)
	}
	if err := WritePlot(&blocks, []Curve{curve, curve}, false); err != nil {
		t.Fatal(err)
	}
	if strings.Count(blocks.String(), "█") != 24 {
		t.Errorf("two curves in blocks:\n%s", blocks.String())
	}
}

func TestPlotOfNothing(t *testing.T) {
	var b strings.Builder
	if err := WritePlot(&b, []Curve{measured(1, &recorder{}).Curve("x", 3)}, true); err != nil || strings.Contains(b.String(), "#") {
		t.Errorf("error %v, plot:\n%s", err, b.String())
	}
}

func TestCalibrate(t *testing.T) {
	u := &upstream{answer: func(w http.ResponseWriter, _ int) { io.WriteString(w, chatStream) }} // 100 prompt tokens
	srv := httptest.NewServer(u)
	defer srv.Close()
	got, err := Calibrate(context.Background(), Options{URL: srv.URL, Model: "m", Sessions: 1})
	if err != nil {
		t.Fatal(err)
	}
	if got < 80 || got > 82 { // 2000 tokens meant, at 4 characters each
		t.Errorf("%v characters a token, want about 80", got)
	}
	if u.bodies[0]["max_tokens"] != 1.0 {
		t.Errorf("max_tokens %v", u.bodies[0]["max_tokens"])
	}
	u.answer = func(w http.ResponseWriter, _ int) { io.WriteString(w, "data: [DONE]\n\n") }
	if _, err := Calibrate(context.Background(), Options{URL: srv.URL, Model: "m", Sessions: 1}); err == nil {
		t.Error("an answer without usage calibrates nothing")
	}
}

// Two runs of one seed must not find each other's prompts in a cache, but share
// the system prompt.
func TestPartsShareOnlyTheSystemPrompt(t *testing.T) {
	first := map[uint64][2]string{}
	for _, part := range []uint64{0, 1, 0} {
		u := &upstream{answer: func(w http.ResponseWriter, _ int) { io.WriteString(w, chatStream) }}
		srv := httptest.NewServer(u)
		ctx, cancel := context.WithCancel(context.Background())
		_, err := Measure(ctx, Options{URL: srv.URL, Model: "m", Sessions: 1, Part: part, OnTurn: func(Turn) { cancel() }})
		srv.Close()
		if err != nil {
			t.Fatal(err)
		}
		messages := u.bodies[0]["messages"].([]any)
		got := [2]string{messages[0].(map[string]any)["content"].(string), messages[1].(map[string]any)["content"].(string)}
		if before, again := first[part]; again && before != got {
			t.Error("the same seed and part gave other texts")
		}
		first[part] = got
	}
	if first[0][0] != first[1][0] || first[0][1] == first[1][1] {
		t.Error("parts must share the system prompt and nothing else")
	}
}
