package state

import (
	"errors"
	"fmt"
	"slices"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/lm-warden/warden/supervisor/control"
	"github.com/lm-warden/warden/supervisor/events"
	"github.com/lm-warden/warden/tui/cell"
	"github.com/lm-warden/warden/tui/explain"
)

// Msg is something that happened.
type Msg interface{ isMsg() }

// Told is a line of the daemon's event stream.
type Told struct {
	Message control.Message
	At      time.Time
}

// Unreachable says that the event stream ended. Err is nil when the daemon closed it itself.
type Unreachable struct {
	Err error
	At  time.Time
}

// Ticked moves the clock.
type Ticked struct{ At time.Time }

// Resized is the size of the terminal.
type Resized struct{ Size Size }

// Drawn says how far the last picture can be scrolled, which is known once it is laid out.
type Drawn struct{ Reach int }

// Pressed is a key, or text that was pasted.
type Pressed struct{ tea.KeyMsg }

// LogLines are lines of one replica's log. Reset forgets the earlier ones.
type LogLines struct {
	Replica string
	Lines   []string
	Reset   bool
	Err     error
}

// Done is the outcome of an Intent.
type Done struct {
	Of   Intent
	Text string
	Err  error
	At   time.Time
}

func (Told) isMsg()        {}
func (Unreachable) isMsg() {}
func (Ticked) isMsg()      {}
func (Resized) isMsg()     {}
func (Drawn) isMsg()       {}
func (Pressed) isMsg()     {}
func (LogLines) isMsg()    {}
func (Done) isMsg()        {}

// Intent is something the program shall do. Reduce only asks for it.
type Intent struct {
	Do     Deed
	Target string // replica id or model alias
}

// Deed is the kind of an Intent.
type Deed int

const (
	Nothing     Deed = iota
	Leave            // the screen, nothing else
	StopAll          // Up: end the daemon
	Detach           // Up: leave, the daemon goes on
	GiveUp           // leave with an error: the daemon does not come back
	AffinityOn       // Target = model
	AffinityOff      // Target = model
	Restart          // Target = replica, like those below
	Drain
	Undrain
	Retry
)

// Reduce returns the state after a message, and what shall be done because of it.
func Reduce(s State, m Msg) (State, Intent) {
	switch m := m.(type) {
	case Told:
		return s.told(m), Intent{}
	case Unreachable:
		s.now = m.At
		s.Link = linkOf(m.Err)
		return s, Intent{}
	case Ticked:
		s.now = m.At
		if s.Flash.Text != "" && s.now.Sub(s.Flash.at) >= flashTime {
			s.Flash = Flash{}
		}
		if s.Silence() >= LeaveAfter {
			return s, Intent{Do: GiveUp}
		}
		return s, Intent{}
	case Resized:
		return s.keepPlace(func(s State) State { s.Size = m.Size; return s }), Intent{}
	case Drawn:
		s.Scroll = min(s.Scroll, m.Reach)
		return s, Intent{}
	case Pressed:
		return s.pressed(m)
	case LogLines:
		return s.logged(m), Intent{}
	case Done:
		s = s.granted(m)
		s.now = m.At
		s.Flash = Flash{Text: m.Text, at: m.At}
		if m.Err != nil {
			s.Flash = Flash{Text: m.Err.Error(), at: m.At, Failed: true}
			var refused *control.Error
			if errors.As(m.Err, &refused) && refused.Hint != "" {
				s.Flash.Text += " (" + refused.Hint + ")"
			}
		}
		s.Flash.Text = cell.Clean(s.Flash.Text)
		return s, Intent{}
	}
	return s, Intent{}
}

func linkOf(err error) Link {
	switch {
	case err == nil:
		return Link{Gone: true}
	case errors.Is(err, control.ErrNoDaemon):
		return Link{Err: cell.Clean(err.Error()), Refused: true}
	default:
		return Link{Err: cell.Clean(err.Error())}
	}
}

func (s State) told(m Told) State {
	s.now = m.At
	s.Link = Link{}
	p := s.live
	if st := m.Message.Status; st != nil {
		p.Status = Clean(*st)
		p.At = m.At
		p.History = p.History.add(p.Status)
		p.Findings = explain.Find(p.Status, p.History.Waits)
		s = s.seen(p.Status.Now)
	}
	for _, e := range m.Message.Recent {
		p = p.with(e)
	}
	if e := m.Message.Event; e != nil {
		p = p.with(*e).moved(*e)
	}
	s.live = p
	return s
}

// moved shows a change of state at once; the next status, within a second, brings the rest.
func (p Picture) moved(e events.Event) Picture {
	to := e.Fields["to"]
	i := slices.IndexFunc(p.Status.Replicas, func(r control.Replica) bool { return r.ID == e.Replica })
	if e.Kind != events.KindState || to == "" || i < 0 || !e.At.After(p.Status.Now) {
		return p
	}
	p.Status.Replicas = slices.Clone(p.Status.Replicas)
	r := &p.Status.Replicas[i]
	r.State, r.Note, r.Since, r.Phase = cell.Clean(to), cell.Clean(e.Fields["note"]), e.At, nil
	p.Findings = explain.Find(p.Status, p.History.Waits)
	return p
}

// with adds an event once. A daemon that was started anew counts from 1 again: what it says is newer than its status
// claims to have begun, so time decides there.
func (p Picture) with(e events.Event) Picture {
	if e.Seq <= p.seq && !(len(p.Events) > 0 && e.At.After(p.Events[len(p.Events)-1].At)) {
		return p
	}
	p.seq = e.Seq
	e = cleanEvent(e)
	keep := p.Events[max(0, len(p.Events)-keptEvents+1):]
	p.Events = append(keep[:len(keep):len(keep)], e)
	return p
}

// confirm asks before work is cut off.
func (s State) confirm(text string, yes Intent) State {
	s.Ask = &Question{Text: text + " [y]es [n]o", answers: map[string]Intent{"y": yes}}
	return s
}

// quitQuestion is what q asks in front of a daemon that would end with it.
func (s State) quitQuestion() State {
	n := len(s.live.Status.Replicas)
	what := fmt.Sprintf("stop %d replicas?", n)
	if n == 1 {
		what = "stop 1 replica?"
	}
	s.Ask = &Question{Text: what + " [y]es [d]etach [n]o", answers: map[string]Intent{"y": {Do: StopAll}, "d": {Do: Detach}}}
	return s
}
