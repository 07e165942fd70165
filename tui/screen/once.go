package screen

import (
	"strings"
	"time"

	"github.com/lm-warden/warden/supervisor/control"
	"github.com/lm-warden/warden/tui/cell"
)

// Once draws one status without a program around it: `warden top --once`. With height 0 the picture is as high as what
// it shows. The footer's keys are left out: nobody reads them.
func Once(status control.Status, width, height int, t cell.Theme) string {
	s := NewState(Top, true, time.Local, status.Now)
	s, _ = Reduce(s, Told{Message: control.Message{Status: &status}, At: status.Now})
	fitted := height <= 0
	if fitted {
		height = 2 + 1 + s.tableHeight() + noticeHeight
	}
	height = max(height, minHeight)
	s.size = Size{width, height}
	out := Render(s, Size{width, height + 1}, t) // one more for the footer, which goes
	out = out[:max(0, strings.LastIndexByte(out, '\n'))]
	if fitted {
		out = strings.TrimRight(out, "\n ")
	}
	return out + "\n"
}
