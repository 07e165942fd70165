package cell

import (
	"slices"
	"strings"
)

// Fragment is one fact of a line that may not have room for all of them.
type Fragment struct {
	Long, Short string // Short stands in when the line is too long; "" = Long
	Tiny        string // the last resort, when all that can be dropped was; "" = none
	Role        Role
	Drop        int // 0 = never; the largest goes first
}

// Join fits fragments into w cells: as many as possible in full, then short, then without the least important.
func Join(w, gap int, t Theme, parts ...Fragment) string {
	parts = slices.DeleteFunc(parts, func(f Fragment) bool { return f.Long == "" })
	give := func(can func(Fragment) bool, how func(i int)) {
		for joined(parts, gap) > w {
			i := leastImportant(parts, can)
			if i < 0 {
				return
			}
			how(i)
		}
	}
	give(func(f Fragment) bool { return f.Short != "" }, func(i int) { parts[i].Long, parts[i].Short = parts[i].Short, "" })
	give(func(f Fragment) bool { return f.Drop > 0 }, func(i int) { parts = slices.Delete(parts, i, i+1) })
	give(func(f Fragment) bool { return f.Tiny != "" }, func(i int) { parts[i].Long, parts[i].Tiny = parts[i].Tiny, "" })
	painted := make([]string, len(parts))
	for i, p := range parts {
		painted[i] = t.Paint(p.Role, p.Long)
	}
	return " " + strings.Join(painted, Spaces(gap))
}

// joined is the width of the line.
func joined(parts []Fragment, gap int) int {
	n := 1 - gap
	for _, p := range parts {
		n += gap + Width(p.Long)
	}
	return n
}

// leastImportant finds the Fragment with the largest Drop among those asked for, -1 for none.
func leastImportant(parts []Fragment, asked func(Fragment) bool) int {
	found := -1
	for i, p := range parts {
		if asked(p) && (found < 0 || p.Drop > parts[found].Drop) {
			found = i
		}
	}
	return found
}
