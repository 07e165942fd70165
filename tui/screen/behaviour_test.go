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
	"github.com/lm-warden/warden/tui/state"
)

var wide = state.Size{W: 140, H: 40}

// TestKeysAsk: what each key asks the program to do, from a running dashboard.
func TestKeysAsk(t *testing.T) {
	tests := []struct {
		name   string
		mode   state.Mode
		view   bool
		status control.Status
		keys   []string
		want   state.Intent
	}{
		{"q leaves top", state.Top, false, hot(), []string{"q"}, state.Intent{Do: state.Leave}},
		{"ctrl+c leaves top", state.Top, false, hot(), []string{"ctrl+c"}, state.Intent{Do: state.Leave}},
		{"q in up asks", state.Up, false, hot(), []string{"q"}, state.Intent{}},
		{"y stops", state.Up, false, hot(), []string{"q", "y"}, state.Intent{Do: state.StopAll}},
		{"d detaches", state.Up, false, hot(), []string{"q", "d"}, state.Intent{Do: state.Detach}},
		{"n takes it back", state.Up, false, hot(), []string{"q", "n"}, state.Intent{}},
		{"any other key takes it back", state.Up, false, hot(), []string{"q", "x"}, state.Intent{}},
		{"and then y does nothing", state.Up, false, hot(), []string{"q", "n", "y"}, state.Intent{}},
		{"ctrl+c in up stops at once", state.Up, false, hot(), []string{"ctrl+c"}, state.Intent{Do: state.StopAll}},
		{"ctrl+c is heard while typing", state.Up, false, hot(), []string{"/", "a", "ctrl+c"}, state.Intent{Do: state.StopAll}},
		{"R asks first", state.Top, false, hot(), []string{"R"}, state.Intent{}},
		{"R then y", state.Top, false, hot(), []string{"j", "R", "y"}, state.Intent{Do: state.Restart, Target: "r1"}},
		{"R then enter is no yes", state.Top, false, hot(), []string{"R", "enter"}, state.Intent{}},
		{"r does nothing", state.Top, false, hot(), []string{"r", "y"}, state.Intent{}},
		{"R on a parked replica tries again at once", state.Top, false, failed(), []string{"R"}, state.Intent{Do: state.Retry, Target: "r0"}},
		{"D then y", state.Top, false, hot(), []string{"j", "j", "D", "y"}, state.Intent{Do: state.Drain, Target: "r2"}},
		{"D on a draining replica takes it back", state.Top, false, failed(), []string{"j", "j", "j", "D"}, state.Intent{Do: state.Undrain, Target: "r3"}},
		{"a turns affinity off", state.Top, false, hot(), []string{"a"}, state.Intent{Do: state.AffinityOff, Target: "qwen3-4b"}},
		{"a turns it on again", state.Top, false, balanced(), []string{"a"}, state.Intent{Do: state.AffinityOn, Target: "qwen3-4b"}},
		{"view only: R", state.Top, true, hot(), []string{"R", "y"}, state.Intent{}},
		{"view only: a", state.Top, true, hot(), []string{"a"}, state.Intent{}},
		{"view only: q", state.Top, true, hot(), []string{"q"}, state.Intent{Do: state.Leave}},
		{"keys typed into a filter are text", state.Top, false, hot(), []string{"/", "q"}, state.Intent{}},
		{"a works on the detail screen", state.Top, false, hot(), []string{"enter", "a"}, state.Intent{Do: state.AffinityOff, Target: "qwen3-4b"}},
		{"a is no key of the log", state.Top, false, hot(), []string{"l", "a"}, state.Intent{}},
		{"q leaves from everywhere", state.Top, false, hot(), []string{"?", "q"}, state.Intent{Do: state.Leave}},
		{"no rows, nothing to restart", state.Top, false, control.Status{Now: t0}, []string{"R", "D", "a", "j", "enter", "l", "y"}, state.Intent{}},
	}
	for _, tt := range tests {
		s := lived(tt.mode, tt.status, wide)
		s.ReadOnly = tt.view
		var got state.Intent
		for _, k := range tt.keys {
			s, got = state.Reduce(s, stroke(k))
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
		{"what fits does not scroll", []string{"l", "up", "pgup", "home"}, []string{"  following", "/v1/messages"}, nil},
		{"search", []string{"l", "/", "p", "o", "s", "t", "enter"}, []string{`2 of 4 lines with "post"`, "/v1/messages"}, []string{"throughput"}},
		{"esc ends a search before the screen", []string{"l", "/", "x", "enter", "esc"}, []string{"LOG r0", "4 lines"}, nil},
		{"help names every key", []string{"?"}, []string{"restart the selected replica", "what the engine runs"}, nil},
		{"help of who may order", []string{"?"}, []string{"affinity of the selected replica's model on or off *", "* not with --view"}, nil},
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
		{"pasted text is typed, not obeyed", []string{"/", "paste:q\x1b[2Jx"}, []string{"filter: qx▏"}, nil},
		{"pasted text is not obeyed elsewhere", []string{"paste:e", "paste:q"}, []string{"PLACEMENT"}, []string{"evidence"}},
		{"a pasted text is cut where it is too long", []string{"/", "paste:" + strings.Repeat("y", 100)}, []string{"filter: " + strings.Repeat("y", 60) + "▏"}, nil},
		{"the cursor moves in the line", []string{"/", "r", "3", "left", "left", "x", "home", "end", "left"}, []string{"filter: xr▏3"}, nil},
		{"ctrl+u empties it", []string{"/", "r", "9", "ctrl+u"}, []string{"filter: ▏", " r1 "}, []string{"no replica"}},
		{"an old filter is edited", []string{"/", "r", "2", "enter", "/", "backspace", "3"}, []string{"filter: r3▏", ">r3 "}, nil},
		{"ctrl+v runs nothing", []string{"/", "r", "ctrl+v"}, []string{"filter: r▏"}, nil},
		{"the last row and the first", []string{"end", "G"}, []string{">r3 "}, nil},
		{"and the first", []string{"end", "g"}, []string{">r0 "}, nil},
	}
	for _, tt := range tests {
		s := lived(state.Top, hot(), wide)
		for _, k := range tt.keys {
			s, _ = state.Reduce(s, stroke(k))
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

// TestHelpTellsWhatIsObeyed: with --view no key orders anything, so none is told.
func TestHelpTellsWhatIsObeyed(t *testing.T) {
	s := lived(state.Top, hot(), wide)
	s.ReadOnly = true
	got := Render(press(s, "?"), wide, cell.Theme{})
	if strings.Contains(got, "restart the selected") || strings.Contains(got, "--view") || !strings.Contains(got, "the engine's log") {
		t.Errorf("with --view:\n%s", got)
	}
}

func TestSortOrder(t *testing.T) {
	s := lived(state.Top, hot(), wide)
	want := map[state.Order]string{state.ByID: "r0 r1 r2 r3", state.ByHeld: "r3 r1 r0 r2", state.ByWaiting: "r3 r0 r1 r2", state.ByKV: "r3 r1 r0 r2", state.ByHit: "r0 r2 r1 r3", state.ByTTFT: "r3 r1 r0 r2"}
	for o := range state.Orders {
		s.Sort = o
		var ids []string
		for _, r := range s.Rows() {
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
	s := lived(state.Top, st, wide)
	s.Sort = state.ByTTFT
	if rows := s.Rows(); rows[3].ID != "r0" {
		t.Errorf("r0 has no TTFT and must be last, not %s", rows[3].ID)
	}
}

func TestPauseKeepsThePicture(t *testing.T) {
	s := press(lived(state.Top, hot(), wide), " ")
	before := Render(s, wide, cell.Theme{})
	st := mild()
	st.Now = t0.Add(time.Second)
	s, _ = state.Reduce(s, state.Told{Message: control.Message{Status: &st}, At: t0.Add(time.Second)})
	e := events.Event{Seq: 99, At: t0, Kind: "state", Text: "unseen"}
	s, _ = state.Reduce(s, state.Told{Message: control.Message{Event: &e}, At: t0.Add(time.Second)})
	if diff := cmp.Diff(before, Render(s, wide, cell.Theme{})); diff != "" {
		t.Errorf("a paused screen changed: %s", diff)
	}
	s = press(s, " ")
	if got := Render(s, wide, cell.Theme{}); !strings.Contains(got, "unseen") || strings.Contains(got, "ready !") {
		t.Errorf("after the pause the newest picture is shown:\n%s", got)
	}
}

func TestLostAndFound(t *testing.T) {
	s := lived(state.Top, hot(), wide)
	show := func() string { return Render(s, wide, cell.Theme{}) }
	step := func(m state.Msg) state.Intent {
		var i state.Intent
		s, i = state.Reduce(s, m)
		return i
	}
	step(state.Ticked{At: t0.Add(2 * time.Second)})
	if strings.Contains(show(), "not answering") {
		t.Error("two seconds are not yet silence")
	}
	step(state.Ticked{At: t0.Add(4 * time.Second)})
	if !strings.Contains(show(), "daemon not answering, last data 4s ago, reconnecting") {
		t.Errorf("no banner:\n%s", show())
	}
	step(state.Unreachable{Err: &control.NoDaemonError{Socket: "/run/w.sock"}, At: t0.Add(5 * time.Second)})
	if !strings.Contains(show(), "warden has stopped, last data 5s ago") {
		t.Errorf("no banner:\n%s", show())
	}
	if i := step(state.Ticked{At: t0.Add(59 * time.Second)}); i.Do != state.Nothing {
		t.Errorf("left too early: %+v", i)
	}
	if !strings.Contains(show(), "leaving in 1s") {
		t.Errorf("no warning:\n%s", show())
	}
	if i := step(state.Ticked{At: t0.Add(60 * time.Second)}); i.Do != state.GiveUp || s.Trouble() == "" {
		t.Errorf("after a minute: %+v, %q", i, s.Trouble())
	}
	st := hot()
	st.Now = t0.Add(61 * time.Second)
	step(state.Told{Message: control.Message{Status: &st}, At: t0.Add(61 * time.Second)})
	if strings.Contains(show(), "stopped") {
		t.Errorf("found again, but:\n%s", show())
	}
}

// TestReduceIsPure: what an older State shows never changes, whatever happens to its successors.
func TestReduceIsPure(t *testing.T) {
	old := lived(state.Top, hot(), wide)
	before := Render(old, wide, cell.Theme{})
	a, b := old, old
	for i := range 300 {
		st := mild()
		st.Now = t0.Add(time.Duration(i) * time.Second)
		e := events.Event{Seq: uint64(100 + i), At: st.Now, Text: "later"}
		a, _ = state.Reduce(a, state.Told{Message: control.Message{Status: &st, Event: &e}, At: st.Now})
		a, _ = state.Reduce(a, state.LogLines{Replica: "r0", Lines: []string{"a line of a"}})
		b, _ = state.Reduce(b, state.LogLines{Replica: "r0", Lines: []string{"a line of b"}})
	}
	for _, k := range []string{"/", "x", "backspace", "y", "enter", "s", "j", "l", "w", "q"} {
		b = press(b, k)
	}
	if diff := cmp.Diff(before, Render(old, wide, cell.Theme{})); diff != "" {
		t.Errorf("the old state changed: %s", diff)
	}
	for _, l := range a.Log.Lines {
		if l == "a line of b" {
			t.Fatal("two states share the lines they append")
		}
	}
}

func TestWantsLog(t *testing.T) {
	for _, tt := range []struct {
		size state.Size
		keys []string
		want string
	}{
		{state.Size{W: 80, H: 24}, nil, ""}, {state.Size{W: 80, H: 24}, []string{"j", "l"}, "r1"}, {wide, []string{"j"}, "r1"}, {wide, []string{"tab"}, ""},
		{wide, []string{"e"}, ""}, {wide, []string{"?"}, ""}, {wide, []string{"enter"}, ""}, {state.Size{W: 140, H: 30}, nil, ""},
	} {
		if got := press(lived(state.Top, hot(), tt.size), tt.keys...).WantsLog(); got != tt.want {
			t.Errorf("%v %v: %q, want %q", tt.size, tt.keys, got, tt.want)
		}
	}
}

func TestOutcomesAreShownForAWhile(t *testing.T) {
	s := lived(state.Top, hot(), wide)
	s, _ = state.Reduce(s, state.Done{Text: "affinity qwen3-4b: on -> off (24 sessions stay known)", At: t0})
	if !strings.Contains(Render(s, wide, cell.Theme{}), "on -> off (24 sessions") {
		t.Error("the outcome is missing")
	}
	s, _ = state.Reduce(s, state.Done{Err: &control.Error{Code: control.CodeWrongState, Message: "r0 is already draining", Hint: "D takes it back"}, At: t0})
	if !strings.Contains(Render(s, wide, cell.Theme{}), "r0 is already draining (D takes it back)") {
		t.Error("the refusal is missing")
	}
	st := hot()
	s, _ = state.Reduce(s, state.Told{Message: control.Message{Status: &st}, At: t0.Add(4 * time.Second)})
	s, _ = state.Reduce(s, state.Ticked{At: t0.Add(5 * time.Second)})
	if strings.Contains(Render(s, wide, cell.Theme{}), "already draining") {
		t.Error("the refusal stays too long")
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
	size := state.Size{W: 80, H: 24}
	s := lived(state.Top, st, size)
	for range 30 {
		s = press(s, "j")
	}
	got := Render(s, size, cell.Theme{})
	if !strings.Contains(got, ">r30") || !strings.Contains(got, "\n all ") || strings.Contains(got, " r0 ") {
		t.Errorf("the selected row and the sum stay:\n%s", got)
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
		s := lived(state.Top, st, size)
		e := events.Event{Seq: 1000, At: t0.Add(time.Second), Kind: evil, Replica: evil, Text: evil}
		s, _ = state.Reduce(s, state.Told{Message: control.Message{Event: &e}, At: t0})
		s, _ = state.Reduce(s, state.LogLines{Replica: "r0", Lines: []string{evil}})
		s, _ = state.Reduce(s, state.Done{Err: errors.New(evil), At: t0})
		for _, keys := range [][]string{nil, {"tab"}, {"tab", "tab"}, {"tab", "tab", "tab"}, {"shift+tab"}, {"e"}, {"enter"}, {"l"}, {"l", "w"}, {"?"}, {"/"}} {
			got := Render(press(s, keys...), size, cell.Theme{})
			checkShape(t, fmt.Sprint(keys), got, size)
			if strings.ContainsAny(got, "\x1b\r\u202e") {
				t.Errorf("%v lets control characters through", keys)
			}
		}
	}
}
