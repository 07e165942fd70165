package state

import (
	"github.com/charmbracelet/bubbles/cursor"
	"github.com/charmbracelet/bubbles/key"
	"github.com/charmbracelet/bubbles/textinput"
	tea "github.com/charmbracelet/bubbletea"
	"github.com/lm-warden/warden/tui/cell"
)

// maxInput bounds what can be typed into a filter.
const maxInput = 60

// Input is a line being typed.
type Input struct {
	Logs bool // searching the log rather than filtering the rows
	Line textinput.Model
}

// newLine is a line to type in that holds text already.
func newLine(text string) textinput.Model {
	l := textinput.New()
	l.CharLimit = maxInput
	l.Cursor.SetMode(cursor.CursorStatic)        // a blinking one would draw the screen anew twice a second
	l.KeyMap.Paste.SetEnabled(false)             // would run a program to read the desktop's clipboard; terminals paste by themselves
	l.KeyMap.DeleteWordForward.SetEnabled(false) // bubbles 1.0.0 panics where one character is left behind the cursor
	l.Focus()
	l.SetValue(text)
	return l
}

// edited is the line after a key. The model is a value but for its text, which it changes in place: giving it the text
// anew keeps the old line as it was.
func edited(l textinput.Model, k tea.KeyMsg) textinput.Model {
	if k.Alt && k.Type == tea.KeyRunes && !key.Matches(k, l.KeyMap.WordForward, l.KeyMap.WordBackward) {
		return l // types nothing: it may be Esc and a key that came together
	}
	l.SetValue(l.Value())
	k.Runes = []rune(cell.Clean(string(k.Runes)))
	l, _ = l.Update(k)
	return l
}

// typed gives the key to the line, and the line's text to what it filters at once.
func (s State) typed(p Pressed) State {
	in := *s.Input
	switch p.String() {
	case "esc":
		in.Line.Reset()
		s.Input = nil
	case "enter":
		s.Input = nil
	default:
		in.Line = edited(in.Line, p.KeyMsg)
		s.Input = &in
	}
	text := in.Line.Value()
	switch {
	case !in.Logs:
		s.Filter, s.Scroll = text, 0
	case text != s.Log.Search:
		s.Log.Search, s.Log.Follow = text, true // what is found last is what is asked for first
	}
	return s
}
