package cell

import (
	"math"
	"strings"
)

// Gap is the value of a missing sample; it is drawn as a blank, never as zero.
func Gap() float64 { return math.NaN() }

// Bar draws a ratio from 0 to 1 in w cells. Anything above nothing shows at least one cell, and only a full bar
// looks full.
func Bar(ratio float64, w int, ascii bool) string {
	full, empty := "█", "░"
	if ascii {
		full, empty = "#", "."
	}
	if w <= 0 {
		return ""
	}
	if math.IsNaN(ratio) {
		return Spaces(w)
	}
	n := int(math.Round(ratio * float64(w)))
	if ratio > 0 {
		n = max(n, 1)
	}
	if ratio < 0.995 {
		n = min(n, w-1)
	}
	n = min(max(n, 0), w)
	return strings.Repeat(full, n) + strings.Repeat(empty, w-n)
}

// sparkLevels are the eight heights of one cell, in two alphabets.
var sparkLevels = [2][]rune{[]rune("▁▂▃▄▅▆▇█"), []rune("__..--=^")}

// Spark draws one cell per sample on a scale from 0 to top. Gaps are blank. With top 0 everything is at the bottom.
func Spark(samples []float64, top float64, ascii bool) string {
	levels := sparkLevels[0]
	if ascii {
		levels = sparkLevels[1]
	}
	var b strings.Builder
	for _, v := range samples {
		switch {
		case math.IsNaN(v):
			b.WriteByte(' ')
		case top <= 0 || v <= 0:
			b.WriteRune(levels[0])
		default:
			i := int(math.Ceil(v/top*float64(len(levels)))) - 1
			b.WriteRune(levels[min(max(i, 0), len(levels)-1)])
		}
	}
	return b.String()
}

// Column is one moment of a stacked chart.
type Column struct{ Lower, Upper float64 }

// Stacked draws columns as rows of text, top row first: Lower at the bottom as full cells, Upper on it as light ones,
// on a scale from 0 to top. A column with anything in it always shows something; a column of Gap is blank.
func Stacked(columns []Column, rows int, top float64, ascii bool) []string {
	lower, upper := '█', '░'
	if ascii {
		lower, upper = '#', '.'
	}
	out := make([]string, 0, max(rows, 0))
	for row := rows - 1; row >= 0; row-- {
		var b strings.Builder
		for _, c := range columns {
			b.WriteRune(stackedCell(c, row, rows, top, lower, upper))
		}
		out = append(out, b.String())
	}
	return out
}

// stackedCell decides by the middle of the cell, so that a part shows once it fills half of one.
func stackedCell(c Column, row, rows int, top float64, lower, upper rune) rune {
	total := c.Lower + c.Upper
	if math.IsNaN(total) || total <= 0 || top <= 0 {
		return ' '
	}
	middle := (float64(row) + 0.5) / float64(rows) * top
	switch {
	case middle < c.Lower:
		return lower
	case middle < total:
		return upper
	case row > 0:
		return ' '
	case c.Lower >= c.Upper:
		return lower
	default:
		return upper
	}
}
