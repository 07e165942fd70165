package doctor

import (
	"fmt"
	"io"
	"strings"
)

// Print writes one line for each finding: mark, check, fact, and the fix.
func Print(w io.Writer, findings []Finding) error {
	width := 0
	for _, f := range findings {
		width = max(width, len(f.Check))
	}
	var b strings.Builder
	for _, f := range findings {
		fmt.Fprintf(&b, "%-5s %-*s  %s", f.Mark, width, f.Check, inOneLine(f.Fact))
		if f.Fix != "" {
			fmt.Fprintf(&b, "; fix: %s", inOneLine(f.Fix))
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func inOneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
