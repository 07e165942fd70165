package load

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"
)

// plotRows is the height of one plot in lines.
const plotRows = 6

// eighths fill a cell from below, in steps of an eighth.
var eighths = []rune(" ▁▂▃▄▅▆▇█")

// Curve is the time to first token over the time of a run.
type Curve struct {
	Name   string
	Median []float64 // seconds, one for each slice of the run; NaN where no turn began
	Length time.Duration
}

// Curve cuts the runs into slices of equal length; several runs are laid over
// each other.
func (m Measurement) Curve(name string, slices int) Curve {
	c := Curve{Name: name, Median: make([]float64, slices)}
	values := make([][]float64, slices)
	for _, r := range m.runs {
		c.Length = max(c.Length, r.ended.Sub(r.started))
	}
	for _, r := range m.runs {
		for _, t := range r.turns {
			if t.Err != nil || t.TTFT == 0 || c.Length == 0 {
				continue
			}
			at := int(float64(slices) * float64(t.Began.Sub(r.started)) / float64(c.Length))
			at = min(max(at, 0), slices-1)
			values[at] = append(values[at], t.TTFT.Seconds())
		}
	}
	for i, v := range values {
		c.Median[i] = math.NaN()
		if median := quantile(v, 0.5); median != nil {
			c.Median[i] = *median
		}
	}
	return c
}

// WritePlot draws curves below each other, on one scale so that they compare.
// ascii leaves out all but ASCII.
func WritePlot(w io.Writer, curves []Curve, ascii bool) error {
	top := 0.0
	for _, c := range curves {
		for _, v := range c.Median {
			if !math.IsNaN(v) {
				top = max(top, v)
			}
		}
	}
	for _, c := range curves {
		if _, err := io.WriteString(w, c.draw(top, ascii)); err != nil {
			return err
		}
	}
	return nil
}

func (c Curve) draw(top float64, ascii bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "TTFT p50, %s\n", c.Name)
	for row := plotRows; row > 0; row-- {
		label := "       "
		if row == plotRows {
			label = fmt.Sprintf("%6.2fs", top)
		}
		line := label + " |"
		for _, v := range c.Median {
			line += string(cellOf(v, top, row, ascii))
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	end := c.Length.Round(time.Second).String()
	fmt.Fprintf(&b, "  0.00s +%s\n         0s%*s\n", strings.Repeat("-", len(c.Median)), max(0, len(c.Median)-2), end)
	return b.String()
}

// cellOf is the part of a column that lies in one row; row 1 is the lowest.
// Whatever was measured shows at least a trace.
func cellOf(v, top float64, row int, ascii bool) rune {
	if math.IsNaN(v) || top <= 0 {
		return ' '
	}
	height := max(1, int(math.Round(v/top*plotRows*8)))
	filled := min(max(height-(row-1)*8, 0), 8)
	switch {
	case !ascii:
		return eighths[filled]
	case filled >= 4 || filled > 0 && row == 1:
		return '#'
	}
	return ' '
}
