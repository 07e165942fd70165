package screen

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
	keptLines  = 2000
	flashTime  = 5 * time.Second

	// The daemon sends a status each second. Three missing ones are no accident; after a minute nobody believes
	// in its return.
	lostAfter  = 3 * time.Second
	leaveAfter = time.Minute
)

// screen is what fills the terminal.
type screen int

const (
	screenMain screen = iota
	screenDetail
	screenLog
	screenHelp
)

// panel is what stands under the table on the main screen.
type panel int

const (
	panelOverview panel = iota
	panelTokens
	panelSessions
	panelHistory
	panelEvents
	panels
)

// order is what the rows are sorted by.
type order int

const (
	byID order = iota
	byHeld
	byWaiting
	byKV
	byHit
	byTTFT
	orders
)

func (o order) String() string { return [...]string{"ID", "REQ", "WAIT", "KV", "HIT", "TTFT"}[o] }

// Size of the terminal in cells.
type Size struct{ W, H int }

// State is everything the screen depends on. It is a value: Reduce returns a changed copy, and what two copies share
// is never written to.
type State struct {
	mode     Mode
	readOnly bool
	zone     *time.Location
	size     Size
	now      time.Time
	opened   time.Time

	live   picture
	frozen *picture // what a paused screen shows
	link   link

	screen   screen
	back     screen // where esc leads from log and help
	panel    panel
	explain  bool
	selected string // replica id
	scroll   int    // first line shown of the panel or screen that scrolls
	sort     order
	filter   string
	input    *input
	ask      *question
	flash    flash
	log      logView
}

// picture is what the daemon said.
type picture struct {
	status   control.Status
	at       time.Time // when it arrived; zero before the first
	events   []events.Event
	seq      uint64 // of the newest event
	history  history
	findings []explain.Finding
}

// link is the connection to the daemon; the zero value is a good one.
type link struct {
	err    string
	gone   bool // the daemon closed the stream: it has ended
	refuse bool // nobody listens on the socket
}

// input is a line being typed.
type input struct {
	logs bool // searching the log rather than filtering the rows
	text string
}

// question waits for an answer of one key.
type question struct {
	text    string
	answers map[string]Intent // key to consequence; every other key takes the question back
}

type flash struct {
	text   string
	at     time.Time
	failed bool
}

// logView is the log of one replica.
type logView struct {
	replica string
	lines   []string
	follow  bool
	wrap    bool
	search  string
	up      int // lines scrolled up from the end
	err     string
}

// NewState is the state before anything is known.
func NewState(mode Mode, readOnly bool, zone *time.Location, now time.Time) State {
	if zone == nil {
		zone = time.UTC
	}
	return State{mode: mode, readOnly: readOnly, zone: zone, now: now, opened: now, log: logView{follow: true}}
}

// shown is the picture that the screen shows.
func (s State) shown() picture {
	if s.frozen != nil {
		return *s.frozen
	}
	return s.live
}

// daemonNow is the daemon's clock now: ages keep running between two statuses, also when both clocks differ.
func (s State) daemonNow() time.Time {
	p := s.shown()
	if s.frozen != nil || p.at.IsZero() {
		return p.status.Now
	}
	return p.status.Now.Add(max(0, s.now.Sub(p.at)))
}

// silence is how long the daemon has said nothing.
func (s State) silence() time.Duration {
	if s.live.at.IsZero() {
		return s.now.Sub(s.opened)
	}
	return s.now.Sub(s.live.at)
}

// lost reports whether the picture may be untrue.
func (s State) lost() bool {
	return s.link != link{} || s.silence() >= lostAfter
}

// rows are the replicas as the table shows them: filtered, grouped by model, sorted within.
func (s State) rows() []control.Replica {
	status := s.shown().status
	rank := map[string]int{}
	for i, m := range status.Models {
		rank[m.Alias] = i
	}
	var out []control.Replica
	for _, r := range status.Replicas {
		if s.filter == "" || matches(s.filter, r.ID, r.Model, r.State, r.Note) {
			out = append(out, r)
		}
	}
	slices.SortStableFunc(out, func(a, b control.Replica) int {
		return cmp.Or(cmp.Compare(rank[a.Model], rank[b.Model]), s.sort.compare(a, b))
	})
	return out
}

// compare puts the largest figure first; byID keeps the daemon's order.
func (o order) compare(a, b control.Replica) int {
	figure := func(r control.Replica) float64 {
		p := pointOf(r)
		switch o {
		case byHeld:
			return p.held
		case byWaiting:
			return p.waiting
		case byKV:
			return p.kv
		case byHit:
			return p.hit
		case byTTFT:
			return p.ttft
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

// matches is the filter: any text that contains it, whatever its case.
func matches(filter string, texts ...string) bool {
	filter = strings.ToLower(filter)
	for _, t := range texts {
		if strings.Contains(strings.ToLower(t), filter) {
			return true
		}
	}
	return false
}

// current is the selected replica, or the first row; ok is false without rows.
func (s State) current() (control.Replica, bool) {
	rows := s.rows()
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

// modelOf finds the model of a replica.
func modelOf(status control.Status, r control.Replica) (control.Model, bool) {
	for _, m := range status.Models {
		if m.Alias == r.Model {
			return m, true
		}
	}
	return control.Model{}, false
}

// Trouble is what is wrong with the connection to the daemon; "" when it is only silent, or well.
func (s State) Trouble() string { return s.link.err }

// WantsLog names the replica whose log the screen shows; "" for none.
func (s State) WantsLog() string {
	r, ok := s.current()
	if !ok || s.screen != screenLog && !(s.screen == screenMain && overviewHasLog(s)) {
		return ""
	}
	return r.ID
}
