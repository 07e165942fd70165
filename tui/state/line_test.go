package state

import (
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/charmbracelet/bubbles/key"
	tea "github.com/charmbracelet/bubbletea"
)

func typing(text string) tea.KeyMsg { return tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune(text)} }

// TestAnEditedLineLeavesTheOldOne: bubbles' line changes its text in place, a State must not.
func TestAnEditedLineLeavesTheOldOne(t *testing.T) {
	old := newLine("abcdef")
	old.SetCursor(3)
	for _, k := range []tea.KeyMsg{typing("XYZ"), {Type: tea.KeyBackspace}, {Type: tea.KeyDelete}, {Type: tea.KeyCtrlW}, {Type: tea.KeyCtrlK}, {Type: tea.KeyCtrlU}} {
		for range 2 { // the second has room for the text of the first
			if next := edited(old, k); next.Value() == "abcdef" {
				t.Errorf("%s changes nothing", k)
			}
			if old.Value() != "abcdef" || old.Position() != 3 {
				t.Fatalf("after %s the old line is %q at %d", k, old.Value(), old.Position())
			}
		}
	}
}

func TestAltTypesNothing(t *testing.T) {
	l := newLine("two words")
	alt := func(text string) { k := typing(text); k.Alt = true; l = edited(l, k) }
	alt("x")
	alt("d")
	alt("b")
	if l.Value() != "two words" || l.Position() != 4 {
		t.Errorf("%q at %d, want the cursor a word back and nothing else", l.Value(), l.Position())
	}
}

// FuzzLine: whatever a terminal sends, a line neither panics nor holds what would harm a screen.
func FuzzLine(f *testing.F) {
	f.Add("a", []byte{1, 4, 0, 200})
	f.Add("paste\x1b[2J\u202e\r\n", []byte{250, 251, 3, 2, 1})
	f.Fuzz(func(t *testing.T, text string, strokes []byte) {
		l := newLine(text[:len(text)/2])
		for i, b := range strokes {
			k := tea.KeyMsg{Type: tea.KeyType(-int(b >> 1)), Alt: b&1 == 1}
			if b < 66 {
				k.Type = tea.KeyType(b >> 1) // the control keys
			}
			if b > 240 {
				k = tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune(text), Paste: b&1 == 1, Alt: b&2 == 2}
			}
			l = edited(l, k)
			if n := len([]rune(l.Value())); n > maxInput || l.Position() > n {
				t.Fatalf("stroke %d: %d characters, cursor at %d", i, n, l.Position())
			}
			if strings.ContainsFunc(l.Value(), unicode.IsControl) {
				t.Fatalf("stroke %d: %q", i, l.Value())
			}
		}
	})
}

func TestFooterDropsTheLeastImportant(t *testing.T) {
	names := func(s State, room int) (out []string) {
		for _, k := range s.FooterKeys(false, func(keys []key.Binding) bool { return len(keys) <= room }) {
			out = append(out, k.Help().Desc)
		}
		return out
	}
	all := names(State{}, 99)
	if !slices.Contains(all, "affinity") || slices.Contains(all, "follow") {
		t.Errorf("on the main screen: %v", all)
	}
	if got := names(State{Screen: LogScreen}, 99); !slices.Contains(got, "scroll") || !slices.Contains(got, "follow") || slices.Contains(got, "affinity") {
		t.Errorf("in the log: %v", got)
	}
	if got := names(State{ReadOnly: true}, 99); slices.Contains(got, "affinity") {
		t.Errorf("with --view: %v", got)
	}
	if got := names(State{}, 3); !slices.Equal(got, []string{"select", "help", "quit"}) {
		t.Errorf("three keys: %v", got)
	}
	if got := names(State{}, 0); !slices.Equal(got, []string{"quit"}) {
		t.Errorf("no room: %v", got)
	}
}
