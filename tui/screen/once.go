package screen

import (
	"strings"
	"time"

	"github.com/lm-warden/warden/supervisor/control"
	"github.com/lm-warden/warden/tui/cell"
	"github.com/lm-warden/warden/tui/state"
)

// Once draws one status without a program around it: `warden top --once`. With height 0 the picture is as high as what
// it shows. The footer's keys are left out: nobody reads them.
func Once(status control.Status, width, height int, t cell.Theme) string {
	s := state.New(state.Top, true, time.Local, status.Now)
	s, _ = state.Reduce(s, state.Told{Message: control.Message{Status: &status}, At: status.Now})
	fitted := height <= 0
	if fitted {
		height = 2 + 1 + view{State: s}.tableHeight() + noticeHeight
	}
	height = max(height, minHeight)
	s.Size = state.Size{W: width, H: height}
	out := Render(s, state.Size{W: width, H: height + 1}, t) // one more for the footer, which goes
	out = out[:max(0, strings.LastIndexByte(out, '\n'))]
	if fitted {
		out = strings.TrimRight(out, "\n ")
	}
	return out + "\n"
}
