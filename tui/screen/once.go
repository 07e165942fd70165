package screen

import (
	"time"

	"github.com/lm-warden/warden/supervisor/control"
	"github.com/lm-warden/warden/tui/cell"
)

// Once draws one status without a program around it: `warden top --once`. With height 0 the picture is as high as what
// it shows. The footer's keys are left out: nobody reads them.
func Once(status control.Status, width, height int, t cell.Theme) string {
	s := NewState(Top, true, time.Local, status.Now)
	s, _ = Reduce(s, Told{Message: control.Message{Status: &status}, At: status.Now})
	if height <= 0 {
		height = 2 + 1 + s.tableHeight() + 2 + 1
	}
	height = max(height, minHeight)
	s.size = Size{width, height}
	out := Render(s, Size{width, height + 1}, t)
	return out[:lastLine(out)] + "\n"
}

// lastLine is where the last line of text begins, without the line end before it.
func lastLine(text string) int {
	for i := len(text) - 1; i >= 0; i-- {
		if text[i] == '\n' {
			return i
		}
	}
	return 0
}
