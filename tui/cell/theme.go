package cell

import (
	"fmt"
	"strings"
)

// Role is what a piece of text means; the theme decides how that looks.
type Role int

const (
	Plain  Role = iota
	Good        // ready
	Warn        // starting, draining, suspect, high
	Bad         // failed, full
	Accent      // the selected row
	Dim         // stale, idle, secondary
	Strong      // titles
	roles
)

// Theme decides alphabet and colours. The zero Theme has no colours and draws with block characters.
type Theme struct {
	ASCII bool
	sgr   [roles]string // SGR parameters per role, from the 16 colours that every terminal has
}

// NamedTheme returns "none" (no escape sequences at all), "dark", "light", or "auto", whose colours the terminal's own
// palette keeps readable on either background.
func NamedTheme(name string, ascii bool) (Theme, error) {
	t := Theme{ASCII: ascii}
	switch name {
	case "none":
	case "", "auto":
		t.sgr = [roles]string{Good: "32", Warn: "33", Bad: "31", Accent: "36", Dim: "2", Strong: "1"}
	case "dark":
		t.sgr = [roles]string{Good: "92", Warn: "93", Bad: "91", Accent: "96", Dim: "90", Strong: "1"}
	case "light": // bright colours vanish on white, and so does yellow: magenta stands in
		t.sgr = [roles]string{Good: "32", Warn: "35", Bad: "31", Accent: "34", Dim: "90", Strong: "1"}
	default:
		return t, fmt.Errorf("unknown theme %q: choose auto, dark, light or none", name)
	}
	return t, nil
}

// Paint colours s; the result has the same width.
func (t Theme) Paint(r Role, s string) string {
	if t.sgr[r] == "" || s == "" {
		return s
	}
	return "\x1b[" + t.sgr[r] + "m" + s + "\x1b[0m"
}

// Faded is the theme of a picture that is no longer true.
func (t Theme) Faded() Theme {
	d := t.sgr[Dim]
	for r := range t.sgr {
		t.sgr[r] = d
	}
	return t
}

// Rule is a horizontal line.
func (t Theme) Rule(w int) string {
	if t.ASCII {
		return strings.Repeat("-", w)
	}
	return t.Paint(Dim, strings.Repeat("─", w))
}

// Divider stands between two panels side by side.
func (t Theme) Divider() string {
	if t.ASCII {
		return "|"
	}
	return t.Paint(Dim, "│")
}
