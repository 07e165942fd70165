package screen

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/lm-warden/warden/supervisor/control"
	"github.com/lm-warden/warden/supervisor/events"
	"github.com/lm-warden/warden/tui/cell"
)

var wide = Size{140, 40}

// TestKeysAsk: what each key asks the program to do, from a running dashboard.
func TestKeysAsk(t *testing.T) {
	tests := []struct {
		name   string
		mode   Mode
		view   bool
		status control.Status
		keys   []string
		want   Intent
	}{
		{"q leaves top", Top, false, hot(), []string{"q"}, Intent{Do: Leave}},
		{"ctrl+c leaves top", Top, false, hot(), []string{"ctrl+c"}, Intent{Do: Leave}},
		{"q in up asks", Up, false, hot(), []string{"q"}, Intent{}},
		{"y stops", Up, false, hot(), []string{"q", "y"}, Intent{Do: StopAll}},
		{"d detaches", Up, false, hot(), []string{"q", "d"}, Intent{Do: Detach}},
		{"n takes it back", Up, false, hot(), []string{"q", "n"}, Intent{}},
		{"any other key takes it back", Up, false, hot(), []string{"q", "x"}, Intent{}},
		{"and then y does nothing", Up, false, hot(), []string{"q", "n", "y"}, Intent{}},
		{"ctrl+c in up stops at once", Up, false, hot(), []string{"ctrl+c"}, Intent{Do: StopAll}},
		{"ctrl+c is heard while typing", Up, false, hot(), []string{"/", "a", "ctrl+c"}, Intent{Do: StopAll}},
		{"R asks first", Top, false, hot(), []string{"R"}, Intent{}},
		{"R then y", Top, false, hot(), []string{"j", "R", "y"}, Intent{Restart, "r1"}},
		{"R then enter is no yes", Top, false, hot(), []string{"R", "enter"}, Intent{}},
		{"r does nothing", Top, false, hot(), []string{"r", "y"}, Intent{}},
		{"R on a parked replica tries again at once", Top, false, failed(), []string{"R"}, Intent{Retry, "r0"}},
		{"D then y", Top, false, hot(), []string{"j", "j", "D", "y"}, Intent{Drain, "r2"}},
		{"D on a draining replica takes it back", Top, false, failed(), []string{"j", "j", "j", "D"}, Intent{Undrain, "r3"}},
		{"a turns affinity off", Top, false, hot(), []string{"a"}, Intent{AffinityOff, "qwen3-4b"}},
		{"a turns it on again", Top, false, balanced(), []string{"a"}, Intent{AffinityOn, "qwen3-4b"}},
		{"view only: R", Top, true, hot(), []string{"R", "y"}, Intent{}},
		{"view only: a", Top, true, hot(), []string{"a"}, Intent{}},
		{"view only: q", Top, true, hot(), []string{"q"}, Intent{Do: Leave}},
		{"keys typed into a filter are text", Top, false, hot(), []string{"/", "q"}, Intent{}},
		{"a works on the detail screen", Top, false, hot(), []string{"enter", "a"}, Intent{AffinityOff, "qwen3-4b"}},
		{"a is no key of the log", Top, false, hot(), []string{"l", "a"}, Intent{}},
		{"q leaves from everywhere", Top, false, hot(), []string{"?", "q"}, Intent{Do: Leave}},
		{"no rows, nothing to restart", Top, false, control.Status{Now: t0}, []string{"R", "D", "a", "j", "enter", "l", "y"}, Intent{}},
	}
	for _, tt := range tests {
		s := lived(tt.mode, tt.status, wide)
		s.readOnly = tt.view
		var got Intent
		for _, k := range tt.keys {
			s, got = Reduce(s, key(k))
		}
		if got != tt.want {
			t.Errorf("%s: %v asks for %+v, want %+v", tt.name, tt.keys, got, tt.want)
		}
	}
}

func balanced() control.Status {
	st := hot()
	st.Models[0].Affinity, st.Models[0].Policy = false, control.PolicyBalance
	return st
}

// TestKeysShow: what each key changes on the screen.
func TestKeysShow(t *testing.T) {
	tests := []struct {
		name    string
		keys    []string
		shows   []string
		without []string
	}{
		{"selection", []string{"j", "down", "k"}, []string{">r1 "}, []string{">r0 ", ">r2 "}},
		{"selection stops at the ends", []string{"up", "up"}, []string{">r0 "}, nil},
		{"and below", []string{"j", "j", "j", "j", "j", "j"}, []string{">r3 "}, nil},
		{"detail and back", []string{"j", "enter"}, []string{"r1 of qwen3-4b", "pid 4001"}, []string{"STICKY"}},
		{"esc", []string{"enter", "esc"}, []string{"STICKY", "PLACEMENT"}, nil},
		{"log", []string{"l"}, []string{"LOG r0", "following"}, []string{"STICKY"}},
		{"log from detail leads back to detail", []string{"enter", "l", "esc"}, []string{"r0 of qwen3-4b"}, nil},
		{"stop following", []string{"l", "f"}, []string{"not following"}, nil},
		{"scrolling back stops following", []string{"l", "up"}, []string{"1 lines from the end"}, []string{"/v1/messages"}},
		{"and the end resumes it", []string{"l", "up", "down"}, []string{"following", "/v1/messages"}, nil},
		{"search", []string{"l", "/", "p", "o", "s", "t", "enter"}, []string{`2 of 4 lines with "post"`, "/v1/messages"}, []string{"throughput"}},
		{"esc ends a search before the screen", []string{"l", "/", "x", "enter", "esc"}, []string{"LOG r0", "4 lines"}, nil},
		{"help names every key", []string{"?"}, []string{"restart the selected replica", "what the engine runs"}, nil},
		{"filter", []string{"/", "R", "2", "enter"}, []string{">r2 ", `filter "R2"`}, []string{" r1 "}},
		{"filter takes backspace", []string{"/", "r", "2", "backspace", "3", "enter"}, []string{">r3 "}, []string{"\n r2 "}},
		{"esc while typing clears", []string{"/", "r", "2", "esc"}, []string{" r1 ", " r3 "}, []string{"filter \""}},
		{"a filter without rows says so", []string{"/", "z", "z", "enter"}, []string{`no replica matches "zz"`}, nil},
		{"sort", []string{"s"}, []string{"sorted by REQ"}, nil},
		{"sort keeps the selected row", []string{"j", "s", "s"}, []string{">r1 ", "sorted by WAIT"}, nil},
		{"tokens", []string{"tab"}, []string{"PROMPT TOKENS/s", "last hour 86% cached"}, []string{"PLACEMENT"}},
		{"events tell placements", []string{"shift+tab"}, []string{"session 9f3a turn 4: sticky"}, nil},
		{"the overview does not", nil, nil, []string{"session 9f3a turn 4: sticky"}},
		{"explain", []string{"e"}, []string{"cause", "evidence", "remedy", "Affinity cannot help at this load"}, nil},
		{"explain again", []string{"e", "e"}, nil, []string{"evidence"}},
		{"pause", []string{" "}, []string{"PAUSED"}, nil},
		{"and on", []string{" ", " "}, nil, []string{"PAUSED"}},
		{"panels come around", []string{"tab", "tab", "tab", "tab", "tab"}, []string{"PLACEMENT"}, nil},
		{"pasted text is typed, not obeyed", []string{"/", "paste:q\x1b[2Jx"}, []string{"filter: qx"}, nil},
		{"long lines are bounded", []string{"/", "paste:" + strings.Repeat("y", 100)}, []string{"filter: _"}, nil},
	}
	for _, tt := range tests {
		s := lived(Top, hot(), wide)
		for _, k := range tt.keys {
			p := key(k)
			if text, pasted := strings.CutPrefix(k, "paste:"); pasted {
				p = Pressed{Key: "paste", Text: text}
			}
			s, _ = Reduce(s, p)
		}
		got := Render(s, wide, cell.Theme{})
		for _, w := range tt.shows {
			if !strings.Contains(got, w) {
				t.Errorf("%s: %q is missing in\n%s", tt.name, w, got)
			}
		}
		for _, w := range tt.without {
			if strings.Contains(got, w) {
				t.Errorf("%s: %q must not be in\n%s", tt.name, w, got)
			}
		}
	}
}

func TestSortOrder(t *testing.T) {
	s := lived(Top, hot(), wide)
	want := map[order]string{byID: "r0 r1 r2 r3", byHeld: "r3 r1 r0 r2", byWaiting: "r3 r0 r1 r2", byKV: "r3 r1 r0 r2", byHit: "r0 r2 r1 r3", byTTFT: "r3 r1 r0 r2"}
	for o := range orders {
		s.sort = o
		var ids []string
		for _, r := range s.rows() {
			ids = append(ids, r.ID)
		}
		if got := strings.Join(ids, " "); got != want[o] {
			t.Errorf("by %s: %s, want %s", o, got, want[o])
		}
	}
}

func TestUnknownSortsLast(t *testing.T) {
	st := hot()
	st.Replicas[0].TTFT = nil
	s := lived(Top, st, wide)
	s.sort = byTTFT
	if rows := s.rows(); rows[3].ID != "r0" {
		t.Errorf("r0 has no TTFT and must be last, not %s", rows[3].ID)
	}
}

func TestPauseKeepsThePicture(t *testing.T) {
	s := press(lived(Top, hot(), wide), " ")
	before := Render(s, wide, cell.Theme{})
	st := mild()
	st.Now = t0.Add(time.Second)
	s, _ = Reduce(s, Told{control.Message{Status: &st}, t0.Add(time.Second)})
	e := events.Event{Seq: 99, At: t0, Kind: "state", Text: "unseen"}
	s, _ = Reduce(s, Told{control.Message{Event: &e}, t0.Add(time.Second)})
	if diff := cmp.Diff(before, Render(s, wide, cell.Theme{})); diff != "" {
		t.Errorf("a paused screen changed: %s", diff)
	}
	s = press(s, " ")
	if got := Render(s, wide, cell.Theme{}); !strings.Contains(got, "unseen") || strings.Contains(got, "ready !") {
		t.Errorf("after the pause the newest picture is shown:\n%s", got)
	}
}

func TestLostAndFound(t *testing.T) {
	s := lived(Top, hot(), wide)
	show := func() string { return Render(s, wide, cell.Theme{}) }
	step := func(m Msg) Intent {
		var i Intent
		s, i = Reduce(s, m)
		return i
	}
	step(Ticked{t0.Add(2 * time.Second)})
	if strings.Contains(show(), "not answering") {
		t.Error("two seconds are not yet silence")
	}
	step(Ticked{t0.Add(4 * time.Second)})
	if !strings.Contains(show(), "daemon not answering, last data 4s ago, reconnecting") {
		t.Errorf("no banner:\n%s", show())
	}
	step(Unreachable{Err: &control.NoDaemonError{Socket: "/run/w.sock"}, At: t0.Add(5 * time.Second)})
	if !strings.Contains(show(), "warden has stopped, last data 5s ago") {
		t.Errorf("no banner:\n%s", show())
	}
	if i := step(Ticked{t0.Add(59 * time.Second)}); i.Do != Nothing {
		t.Errorf("left too early: %+v", i)
	}
	if !strings.Contains(show(), "leaving in 1s") {
		t.Errorf("no warning:\n%s", show())
	}
	if i := step(Ticked{t0.Add(60 * time.Second)}); i.Do != GiveUp || s.Trouble() == "" {
		t.Errorf("after a minute: %+v, %q", i, s.Trouble())
	}
	st := hot()
	st.Now = t0.Add(61 * time.Second)
	step(Told{control.Message{Status: &st}, t0.Add(61 * time.Second)})
	if strings.Contains(show(), "stopped") {
		t.Errorf("found again, but:\n%s", show())
	}
}

func TestDaemonThatNeverAnswered(t *testing.T) {
	s := NewState(Top, false, nil, t0)
	var i Intent
	s, i = Reduce(s, Ticked{t0.Add(59 * time.Second)})
	if i.Do != Nothing {
		t.Errorf("%+v", i)
	}
	if _, i = Reduce(s, Ticked{t0.Add(time.Minute)}); i.Do != GiveUp {
		t.Errorf("%+v", i)
	}
}

func TestEventsAreToldOnceAndBounded(t *testing.T) {
	s := NewState(Top, false, time.UTC, t0)
	tell := func(m control.Message) { s, _ = Reduce(s, Told{m, t0}) }
	event := func(seq int) events.Event {
		return events.Event{Seq: uint64(seq), At: t0.Add(time.Duration(seq) * time.Millisecond), Text: fmt.Sprint(seq)}
	}
	for i := 1; i <= keptEvents+10; i++ {
		e := event(i)
		tell(control.Message{Event: &e})
		tell(control.Message{Event: &e})
	}
	tell(control.Message{Recent: []events.Event{event(keptEvents), event(keptEvents + 10), event(keptEvents + 11)}})
	got := s.live.events
	if len(got) != keptEvents || got[0].Seq != 12 || got[len(got)-1].Seq != keptEvents+11 {
		t.Errorf("%d events, %d to %d", len(got), got[0].Seq, got[len(got)-1].Seq)
	}
	restarted := events.Event{Seq: 1, At: t0.Add(time.Hour), Text: "of a new daemon"}
	tell(control.Message{Recent: []events.Event{restarted}})
	if last := s.live.events[keptEvents-1]; last.Text != restarted.Text {
		t.Errorf("the new daemon's first event is missing: %+v", last)
	}
}

// TestReduceIsPure: what an older State shows never changes, whatever happens to its successors.
func TestReduceIsPure(t *testing.T) {
	old := lived(Top, hot(), wide)
	before := Render(old, wide, cell.Theme{})
	a, b := old, old
	for i := range 300 {
		st := mild()
		st.Now = t0.Add(time.Duration(i) * time.Second)
		e := events.Event{Seq: uint64(100 + i), At: st.Now, Text: "later"}
		a, _ = Reduce(a, Told{control.Message{Status: &st, Event: &e}, st.Now})
		a, _ = Reduce(a, LogLines{Replica: "r0", Lines: []string{"a line of a"}})
		b, _ = Reduce(b, LogLines{Replica: "r0", Lines: []string{"a line of b"}})
	}
	for _, k := range []string{"/", "x", "backspace", "y", "enter", "s", "j", "l", "w", "q"} {
		b = press(b, k)
	}
	if diff := cmp.Diff(before, Render(old, wide, cell.Theme{})); diff != "" {
		t.Errorf("the old state changed: %s", diff)
	}
	for _, l := range a.log.lines {
		if l == "a line of b" {
			t.Fatal("two states share the lines they append")
		}
	}
}

func TestLogLines(t *testing.T) {
	s := press(lived(Top, hot(), wide), "l")
	tell := func(m LogLines) { s, _ = Reduce(s, m) }
	tell(LogLines{Replica: "r1", Lines: []string{"of another"}})
	if len(s.log.lines) != len(engineLog) {
		t.Errorf("lines of another replica got in: %q", s.log.lines)
	}
	many := make([]string, keptLines+5)
	for i := range many {
		many[i] = fmt.Sprint("line ", i)
	}
	tell(LogLines{Replica: "r0", Lines: many})
	if n := len(s.log.lines); n != keptLines || s.log.lines[0] != "line 5" {
		t.Errorf("%d lines from %q", n, s.log.lines[0])
	}
	s = press(s, "pgup")
	read := Render(s, wide, cell.Theme{})
	tell(LogLines{Replica: "r0", Lines: []string{"new 1", "new 2"}})
	now := Render(s, wide, cell.Theme{})
	if strings.Split(read, "\n")[10] != strings.Split(now, "\n")[10] {
		t.Error("what is being read moved when new lines came")
	}
	tell(LogLines{Replica: "r0", Err: errors.New("the log is gone")})
	if got := Render(s, wide, cell.Theme{}); !strings.Contains(got, "the log is gone") {
		t.Errorf("no error:\n%s", got)
	}
	tell(LogLines{Replica: "r0", Reset: true, Lines: []string{"anew"}})
	if got := Render(s, wide, cell.Theme{}); strings.Contains(got, "gone") || !strings.Contains(got, "anew") {
		t.Errorf("after a reset:\n%s", got)
	}
}

func TestWantsLog(t *testing.T) {
	for _, tt := range []struct {
		size Size
		keys []string
		want string
	}{
		{Size{80, 24}, nil, ""}, {Size{80, 24}, []string{"j", "l"}, "r1"}, {wide, []string{"j"}, "r1"}, {wide, []string{"tab"}, ""},
		{wide, []string{"e"}, ""}, {wide, []string{"?"}, ""}, {wide, []string{"enter"}, ""}, {Size{140, 30}, nil, ""},
	} {
		if got := press(lived(Top, hot(), tt.size), tt.keys...).WantsLog(); got != tt.want {
			t.Errorf("%v %v: %q, want %q", tt.size, tt.keys, got, tt.want)
		}
	}
}

func TestOutcomesAreShownForAWhile(t *testing.T) {
	s := lived(Top, hot(), wide)
	s, _ = Reduce(s, Done{Text: "affinity qwen3-4b: on -> off (24 sessions stay known)", At: t0})
	if !strings.Contains(Render(s, wide, cell.Theme{}), "on -> off (24 sessions") {
		t.Error("the outcome is missing")
	}
	s, _ = Reduce(s, Done{Err: &control.Error{Code: control.CodeWrongState, Message: "r0 is already draining", Hint: "D takes it back"}, At: t0})
	if !strings.Contains(Render(s, wide, cell.Theme{}), "r0 is already draining (D takes it back)") {
		t.Error("the refusal is missing")
	}
	st := hot()
	s, _ = Reduce(s, Told{control.Message{Status: &st}, t0.Add(4 * time.Second)})
	s, _ = Reduce(s, Ticked{t0.Add(5 * time.Second)})
	if strings.Contains(Render(s, wide, cell.Theme{}), "already draining") {
		t.Error("the refusal stays too long")
	}
}

func TestHistory(t *testing.T) {
	var h history
	for i := range 200 {
		st := control.Status{Now: t0.Add(time.Duration(i) * time.Second), Replicas: []control.Replica{{ID: "r0", Held: i}}}
		if i >= 150 && i < 160 {
			st.Replicas = nil // it was not there
		}
		h = h.add(st)
		h = h.add(st) // the same moment twice is one
	}
	if len(h) != 61 {
		t.Errorf("%d samples, want those of 60 s", len(h))
	}
	end := t0.Add(199 * time.Second)
	held := func(p point) float64 { return p.held }
	got := h.series("r0", end, 12, true, held)
	if got[11] != 199 || got[0] <= 139 || got[0] > 145 {
		t.Errorf("ends %v to %v", got[0], got[11])
	}
	if !strings.Contains(cell.Spark(got, 199, true), " ") {
		t.Errorf("ten seconds without the replica are a gap: %v", got)
	}
	peak := h.series("r0", end, 60, true, held)
	mean := h.series("r0", end, 12, false, held)
	if peak[59] != 199 || mean[10] >= got[10] {
		t.Errorf("peak %v, mean %v against %v", peak[59], mean[10], got[10])
	}
	if all := h.series("", end, 12, true, func(p point) float64 { return p.kv }); all[5] == all[5] {
		t.Error("KV of nobody is unknown, not zero")
	}
}

// TestCellsDoNotFlicker: as time goes on, a sparkline moves by whole cells.
func TestCellsDoNotFlicker(t *testing.T) {
	var h history
	for i := range 61 {
		h = h.add(control.Status{Now: t0.Add(time.Duration(i) * time.Second), Replicas: []control.Replica{{ID: "r0", Held: (i * 7) % 13}}})
	}
	draw := func(after time.Duration) []float64 {
		return h.series("r0", t0.Add(time.Minute+after), 20, true, func(p point) float64 { return p.held })
	}
	a, b := draw(0), draw(3*time.Second)
	if diff := cmp.Diff(a[1:19], b[:18]); diff != "" {
		t.Errorf("one cell later: %s", diff)
	}
}

func TestColumnsDropInOrder(t *testing.T) {
	var before []string
	for w := 200; w >= 66; w-- {
		var now []string
		for _, c := range fit(w, true) {
			now = append(now, strings.TrimSpace(c.title))
		}
		if total(fit(w, true)) > w {
			t.Fatalf("%d cells do not hold %v", w, now)
		}
		if len(now) < len(before) {
			t.Logf("%d cells: %v", w, now)
		}
		before = now
	}
	want := []string{"REQ", "STICKY", "SPILL", "RUN", "WAIT", barColumn, "HIT", "TTFT", "GPU"}
	if diff := cmp.Diff(want, func() (out []string) {
		for _, c := range fit(66, true) {
			out = append(out, c.title)
		}
		return out
	}()); diff != "" {
		t.Errorf("at 80 cells: %s", diff)
	}
}

func TestManyReplicasScroll(t *testing.T) {
	st := hot()
	for i := 4; i < 40; i++ {
		st.Replicas = append(st.Replicas, replica(i, hotFigures[0]))
	}
	size := Size{80, 24}
	s := lived(Top, st, size)
	for range 30 {
		s = press(s, "j")
	}
	got := Render(s, size, cell.Theme{})
	if !strings.Contains(got, ">r30") || !strings.Contains(got, "\n all ") || strings.Contains(got, " r0 ") {
		t.Errorf("the selected row and the sum stay:\n%s", got)
	}
}

func TestKeysAreDeclaredOnce(t *testing.T) {
	for sc := screenMain; sc <= screenHelp; sc++ {
		seen := map[string]string{}
		for _, b := range bindings {
			if b.where&(1<<sc) == 0 {
				continue
			}
			for _, k := range b.keys {
				if other, twice := seen[k]; twice {
					t.Errorf("screen %d: key %q is both %q and %q", sc, k, other, b.help)
				}
				seen[k] = b.help
			}
		}
	}
	if n := len(Keys()); n < 15 {
		t.Errorf("%d keys are described", n)
	}
}

// TestHostileText: names from outside can neither move the cursor nor widen a line.
func TestHostileText(t *testing.T) {
	st := hot()
	evil := "\x1b[2J\x1b]0;owned\x07\r\n\u202e日本語" + strings.Repeat("x", 300)
	st.Models[0].Alias, st.Models[0].Repo = evil, evil
	for i := range st.Replicas {
		st.Replicas[i].Model, st.Replicas[i].Note = evil, evil
		st.Replicas[i].Sessions[0].Client, st.Replicas[i].Sessions[0].ID = evil, evil
	}
	st.Replicas[0].State, st.Replicas[0].Diagnosis = control.StateParked, &control.Diagnosis{Cause: evil, Fix: evil, Line: evil}
	st.Replicas[1].State, st.Replicas[1].Phase = control.StateStarting, &control.Phase{Name: evil, Detail: evil, Done: 1, Total: 2}
	st.Replicas[2].State = evil
	st.GPUs[3].Name, st.GPUs[3].Throttled = evil, []string{evil}
	st.Models[0].Queue = []control.Queued{{Session: evil, Why: evil}}
	for _, size := range sizes {
		s := lived(Top, st, size)
		e := events.Event{Seq: 1000, At: t0.Add(time.Second), Kind: evil, Replica: evil, Text: evil}
		s, _ = Reduce(s, Told{control.Message{Event: &e}, t0})
		s, _ = Reduce(s, LogLines{Replica: "r0", Lines: []string{evil}})
		s, _ = Reduce(s, Done{Err: errors.New(evil), At: t0})
		for _, keys := range [][]string{nil, {"tab"}, {"tab", "tab"}, {"tab", "tab", "tab"}, {"shift+tab"}, {"e"}, {"enter"}, {"l"}, {"l", "w"}, {"?"}, {"/"}} {
			got := Render(press(s, keys...), size, cell.Theme{})
			checkShape(t, fmt.Sprint(keys), got, size)
			if strings.ContainsAny(got, "\x1b\r\u202e") {
				t.Errorf("%v lets control characters through", keys)
			}
		}
	}
}
