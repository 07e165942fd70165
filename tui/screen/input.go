package screen

import (
	"fmt"
	"unicode/utf8"

	"github.com/lm-warden/warden/supervisor/control"
	"github.com/lm-warden/warden/tui/cell"
)

// maxInput bounds what can be typed into a filter.
const maxInput = 60

// pressed finds out who gets the key: Ctrl-C always, then a line being typed, an open question, the screen.
func (s State) pressed(k Pressed) (State, Intent) {
	if k.Key == "ctrl+c" {
		if s.mode == Up {
			return s, Intent{Do: StopAll}
		}
		return s, Intent{Do: Leave}
	}
	if s.input != nil {
		return s.typed(k), Intent{}
	}
	if s.ask != nil {
		answer := s.ask.answers[k.Key]
		s.ask = nil
		return s, answer
	}
	for _, b := range bindings {
		if b.on(s) && b.has(k.Key) {
			return b.act(s)
		}
	}
	return s, Intent{}
}

// typed edits the line. It works on a copy: the old State keeps its own.
func (s State) typed(k Pressed) State {
	in := *s.input
	switch k.Key {
	case "enter", "esc":
		s.input = nil
		if k.Key == "esc" {
			in.text = ""
		}
	case "backspace":
		_, n := utf8.DecodeLastRuneInString(in.text)
		in.text = in.text[:len(in.text)-n]
		s.input = &in
	default:
		if typed := cell.Clean(k.Text); utf8.RuneCountInString(in.text+typed) <= maxInput {
			in.text += typed
		}
		s.input = &in
	}
	s.scroll = 0
	if in.logs {
		s.log.search, s.log.up = in.text, 0
	} else {
		s.filter = in.text
	}
	return s
}

func (s State) move(by int) State {
	if s.screen == screenLog {
		return s.scrollLog(-by)
	}
	if s.screen != screenMain {
		s.scroll = max(0, s.scroll+by)
		return s
	}
	rows := s.rows()
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
func (s State) turn(by panel) State {
	s.panel, s.scroll = (s.panel+by+panels)%panels, 0
	return s
}

// page moves by what one screen holds.
func (s State) page(by int) State {
	step := by * max(1, s.size.H-6)
	switch s.screen {
	case screenLog:
		return s.scrollLog(-step)
	case screenMain:
		s.scroll = max(0, s.scroll+by*max(1, s.size.H/3))
		return s
	default:
		s.scroll = max(0, s.scroll+step)
		return s
	}
}

// scrollLog moves towards older lines; reading back stops following, the end resumes it.
func (s State) scrollLog(up int) State {
	s.log.up = min(max(s.log.up+up, 0), max(0, len(s.log.lines)-1))
	s.log.follow = s.log.up == 0
	return s
}

// restart asks for what R means in the replica's state.
func (s State) restart() (State, Intent) {
	r, ok := s.current()
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
	r, ok := s.current()
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

func (s State) toggleAffinity() (State, Intent) {
	r, ok := s.current()
	if !ok {
		return s, Intent{}
	}
	m, ok := modelOf(s.shown().status, r)
	if !ok {
		return s, Intent{}
	}
	if m.Affinity {
		return s, Intent{Do: AffinityOff, Target: m.Alias}
	}
	return s, Intent{Do: AffinityOn, Target: m.Alias}
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
func (s State) open(to screen) State {
	if s.screen != to {
		s.back, s.screen, s.scroll = s.screen, to, 0
	}
	if to == screenLog {
		s.log.follow, s.log.up = true, 0
	}
	if r, ok := s.current(); ok {
		s.selected = r.ID // a sort order that changes must not change the subject
	}
	return s
}

// escape undoes one thing.
func (s State) escape() State {
	switch {
	case s.screen == screenLog && s.log.search != "":
		s.log.search, s.log.up = "", 0
	case s.screen != screenMain:
		s.screen, s.back, s.scroll = s.back, screenMain, 0
	case s.explain:
		s.explain = false
	case s.filter != "":
		s.filter = ""
	case s.panel != panelOverview:
		s.panel, s.scroll = panelOverview, 0
	}
	return s
}

func (s State) quit() (State, Intent) {
	if s.mode == Up {
		return s.quitQuestion(), Intent{}
	}
	return s, Intent{Do: Leave}
}
