package state

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/lm-warden/warden/supervisor/control"
	"github.com/lm-warden/warden/supervisor/events"
	"github.com/lm-warden/warden/tui/explain"
)

// Mode is who opened the dashboard.
type Mode int

const (
	Top Mode = iota // `warden top`: q and Ctrl-C just leave
	Up              // `warden up` in front: q asks, Ctrl-C stops the replicas
)

const (
	keptEvents = 500
	flashTime  = 5 * time.Second

	// The daemon sends a status each second. Three missing ones are no accident; after a minute nobody believes
	// in its return.
	lostAfter  = 3 * time.Second
	LeaveAfter = time.Minute
)

// Screen is what fills the terminal.
type Screen int

const (
	MainScreen Screen = iota
	DetailScreen
	LogScreen
	HelpScreen
)

// Panel is what stands under the table on the main screen.
type Panel int

const (
	OverviewPanel Panel = iota
	TokensPanel
	SessionsPanel
	HistoryPanel
	EventsPanel
	panels
)

// Order is what the rows are sorted by.
type Order int

const (
	ByID Order = iota
	ByHeld
	ByWaiting
	ByKV
	ByHit
	ByTTFT
	Orders // how many there are
)

// String is the title of the column.
func (o Order) String() string { return [...]string{"ID", "REQ", "WAIT", "KV", "HIT", "TTFT"}[o] }

// From these sizes on the overview has panels side by side, and shows the log as well.
const (
	WideWidth = 120
	LogHeight = 36
)

// Size of the terminal in cells.
type Size struct{ W, H int }

// State is everything the screen depends on. It is a value: Reduce returns a changed copy, and what two copies share
// is never written to.
type State struct {
	mode     Mode
	ReadOnly bool
	Zone     *time.Location
	Size     Size
	now      time.Time
	opened   time.Time

	live   Picture
	frozen *Picture // what a paused screen shows
	Link   Link

	Screen   Screen
	back     Screen // where esc leads from log and help
	Panel    Panel
	Explain  bool
	selected string // replica id
	Scroll   int    // first line shown of the panel or screen that scrolls
	Sort     Order
	Filter   string
	Input    *Input
	Ask      *Question
	Flash    Flash
	Log      LogView
	wishes   map[string]wish // by model; affinity.go
}

// Picture is what the daemon said.
type Picture struct {
	Status   control.Status
	At       time.Time // when it arrived; zero before the first
	Events   []events.Event
	seq      uint64 // of the newest event
	History  History
	Findings []explain.Finding
}

// Link is the connection to the daemon; the zero value is a good one.
type Link struct {
	Err     string
	Gone    bool // the daemon closed the stream: it has ended
	Refused bool // nobody listens on the socket
}

// Question waits for an answer of one key.
type Question struct {
	Text    string
	answers map[string]Intent // key to consequence; every other key takes the question back
}

// Flash is the outcome of an order, shown for a few seconds.
type Flash struct {
	Text   string
	at     time.Time
	Failed bool
}

// New is the state before anything is known.
func New(mode Mode, readOnly bool, zone *time.Location, now time.Time) State {
	if zone == nil {
		zone = time.UTC
	}
	return State{mode: mode, ReadOnly: readOnly, Zone: zone, now: now, opened: now, Log: LogView{Follow: true}}
}

// Paused reports whether the screen shows an older picture.
func (s State) Paused() bool { return s.frozen != nil }

// Known reports whether the daemon has said anything yet.
func (s State) Known() bool { return !s.live.At.IsZero() }

// Shown is the picture that the screen shows.
func (s State) Shown() Picture {
	if s.frozen != nil {
		return *s.frozen
	}
	return s.live
}

// DaemonNow is the daemon's clock now: ages keep running between two statuses, also when both clocks differ.
func (s State) DaemonNow() time.Time {
	p := s.Shown()
	if s.frozen != nil || p.At.IsZero() {
		return p.Status.Now
	}
	return p.Status.Now.Add(max(0, s.now.Sub(p.At)))
}

// Silence is how long the daemon has said nothing.
func (s State) Silence() time.Duration {
	if s.live.At.IsZero() {
		return s.now.Sub(s.opened)
	}
	return s.now.Sub(s.live.At)
}

// Lost reports whether the picture may be untrue.
func (s State) Lost() bool {
	return s.Link != Link{} || s.Silence() >= lostAfter
}

// Rows are the replicas as the table shows them: filtered, grouped by model, sorted within.
func (s State) Rows() []control.Replica {
	status := s.Shown().Status
	rank := map[string]int{}
	for i, m := range status.Models {
		rank[m.Alias] = i
	}
	var out []control.Replica
	for _, r := range status.Replicas {
		if s.Filter == "" || Matches(s.Filter, r.ID, r.Model, r.State, r.Note) {
			out = append(out, r)
		}
	}
	slices.SortStableFunc(out, func(a, b control.Replica) int {
		return cmp.Or(cmp.Compare(rank[a.Model], rank[b.Model]), s.Sort.compare(a, b))
	})
	return out
}

// compare puts the largest figure first; byID keeps the daemon's order.
func (o Order) compare(a, b control.Replica) int {
	figure := func(r control.Replica) float64 {
		p := PointOf(r)
		switch o {
		case ByHeld:
			return p.Held
		case ByWaiting:
			return p.Waiting
		case ByKV:
			return p.KV
		case ByHit:
			return p.Hit
		case ByTTFT:
			return p.TTFT
		default:
			return 0
		}
	}
	return cmp.Compare(orLast(figure(b)), orLast(figure(a)))
}

// orLast sorts the unknown behind everything.
func orLast(v float64) float64 {
	if v != v {
		return -1
	}
	return v
}

// Matches is the filter: any text that contains it, whatever its case.
func Matches(filter string, texts ...string) bool {
	filter = strings.ToLower(filter)
	for _, t := range texts {
		if strings.Contains(strings.ToLower(t), filter) {
			return true
		}
	}
	return false
}

// Current is the selected replica, or the first row; ok is false without rows.
func (s State) Current() (control.Replica, bool) {
	rows := s.Rows()
	for _, r := range rows {
		if r.ID == s.selected {
			return r, true
		}
	}
	if len(rows) == 0 {
		return control.Replica{}, false
	}
	return rows[0], true
}

// ModelOf finds the model of a replica.
func ModelOf(status control.Status, r control.Replica) (control.Model, bool) {
	for _, m := range status.Models {
		if m.Alias == r.Model {
			return m, true
		}
	}
	return control.Model{}, false
}

// Trouble is what is wrong with the connection to the daemon; "" when it is only silent, or well.
func (s State) Trouble() string { return s.Link.Err }

// WantsLog names the replica whose log the screen shows; "" for none.
func (s State) WantsLog() string {
	r, ok := s.Current()
	if !ok || s.Screen != LogScreen && !(s.Screen == MainScreen && OverviewHasLog(s)) {
		return ""
	}
	return r.ID
}

// OverviewHasLog decides by the terminal alone, so that the program knows what to read before anything is drawn.
func OverviewHasLog(s State) bool {
	return s.Panel == OverviewPanel && !s.Explain && s.Size.W >= WideWidth && s.Size.H >= LogHeight
}
