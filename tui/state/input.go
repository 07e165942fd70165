package state

import (
	"fmt"
	"math"

	"github.com/charmbracelet/bubbles/key"
	"github.com/charmbracelet/bubbles/viewport"
	"github.com/lm-warden/warden/supervisor/control"
)

// pressed finds out who gets the key: Ctrl-C always, then a line being typed, an open question, the screen.
func (s State) pressed(k Pressed) (State, Intent) {
	if k.String() == "ctrl+c" {
		if s.mode == Up {
			return s, Intent{Do: StopAll}
		}
		return s, Intent{Do: Leave}
	}
	if s.Input != nil {
		return s.typed(k), Intent{}
	}
	if s.Ask != nil {
		answer := s.Ask.answers[k.String()]
		s.Ask = nil
		return s, answer
	}
	for _, b := range bindings {
		if key.Matches(k, b.on(s).Binding) {
			return b.act(s)
		}
	}
	return s, Intent{}
}

func (s State) move(by int) State {
	if s.Screen == LogScreen {
		return s.scrollLog(func(v *viewport.Model) { v.SetYOffset(v.YOffset + by) })
	}
	if s.Screen != MainScreen {
		s.Scroll = max(0, s.Scroll+by)
		return s
	}
	rows := s.Rows()
	at := 0
	for i, r := range rows {
		if r.ID == s.selected {
			at = i
		}
	}
	if len(rows) == 0 {
		return s
	}
	s.selected = rows[min(max(at+by, 0), len(rows)-1)].ID
	return s
}

// turn shows another panel.
func (s State) turn(by Panel) State {
	s.Panel, s.Scroll = (s.Panel+by+panels)%panels, 0
	return s
}

// page moves by what one screen holds.
func (s State) page(by int) State {
	switch s.Screen {
	case LogScreen:
		return s.scrollLog(func(v *viewport.Model) { v.SetYOffset(v.YOffset + by*v.Height) })
	case MainScreen:
		s.Scroll = max(0, s.Scroll+by*max(1, s.Size.H/3))
	default:
		s.Scroll = max(0, s.Scroll+by*max(1, s.Size.H-6))
	}
	return s
}

// first goes to the first row of the table, or the first line of another screen.
func (s State) first() State {
	switch s.Screen {
	case LogScreen:
		return s.scrollLog(func(v *viewport.Model) { v.GotoTop() })
	case MainScreen:
		return s.move(-len(s.Rows()))
	default:
		s.Scroll = 0
		return s
	}
}

// last goes to the other end.
func (s State) last() State {
	switch s.Screen {
	case LogScreen:
		return s.scrollLog(func(v *viewport.Model) { v.GotoBottom() })
	case MainScreen:
		return s.move(len(s.Rows()))
	default:
		s.Scroll = math.MaxInt32 // as far as the next picture reaches: see Drawn
		return s
	}
}

// restart asks for what R means in the replica's state.
func (s State) restart() (State, Intent) {
	r, ok := s.Current()
	if !ok {
		return s, Intent{}
	}
	switch r.State {
	case control.StateBackoff, control.StateParked, control.StateStopped:
		return s, Intent{Do: Retry, Target: r.ID} // nothing runs there that could be cut off
	default:
		return s.confirm(fmt.Sprintf("restart %s? %s first", r.ID, heldText(r.Held)), Intent{Do: Restart, Target: r.ID}), Intent{}
	}
}

func (s State) drain() (State, Intent) {
	r, ok := s.Current()
	if !ok {
		return s, Intent{}
	}
	if r.State == control.StateDraining {
		return s, Intent{Do: Undrain, Target: r.ID}
	}
	return s.confirm(fmt.Sprintf("drain %s? %s, no new ones are placed", r.ID, heldText(r.Held)), Intent{Do: Drain, Target: r.ID}), Intent{}
}

func heldText(n int) string {
	if n == 1 {
		return "1 held request finishes"
	}
	return fmt.Sprintf("%d held requests finish", n)
}

func (s State) pause() State {
	if s.frozen != nil {
		s.frozen = nil
		return s
	}
	p := s.live
	s.frozen = &p
	return s
}

// open shows another screen and remembers the way back.
func (s State) open(to Screen) State {
	if s.Screen != to {
		s.back, s.Screen, s.Scroll = s.Screen, to, 0
	}
	if to == LogScreen {
		s.Log.Follow = true
	}
	if r, ok := s.Current(); ok {
		s.selected = r.ID // a sort order that changes must not change the subject
	}
	return s
}

// escape undoes one thing.
func (s State) escape() State {
	switch {
	case s.Screen == LogScreen && s.Log.Search != "":
		s.Log.Search, s.Log.Follow = "", true
	case s.Screen != MainScreen:
		s.Screen, s.back, s.Scroll = s.back, MainScreen, 0
	case s.Explain:
		s.Explain = false
	case s.Filter != "":
		s.Filter = ""
	case s.Panel != OverviewPanel:
		s.Panel, s.Scroll = OverviewPanel, 0
	}
	return s
}

func (s State) quit() (State, Intent) {
	if s.mode == Up {
		return s.quitQuestion(), Intent{}
	}
	return s, Intent{Do: Leave}
}
