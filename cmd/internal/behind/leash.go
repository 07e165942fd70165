package behind

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"

	"github.com/lm-warden/warden/cmd/internal/exit"
)

// Leash is the side of the warden behind.
type Leash struct{ in, out *os.File }

// Hold finds the two pipes that Start left this process.
func Hold() (*Leash, error) {
	l := &Leash{in: os.NewFile(leashFD, "leash"), out: os.NewFile(reportFD, "report")}
	if l.in == nil || l.out == nil {
		return nil, exit.Fail(exit.Usage, errors.New("--leash is for warden itself"), "")
	}
	return l, nil
}

// Report says how the start went. It is called once.
func (l *Leash) Report(err error) {
	_ = json.NewEncoder(l.out).Encode(exit.ReportOf(err)) // the reader may be gone; Detached tells
	l.out.Close()
}

// Detached waits for the word of the other side, and is false when that ended
// without one.
func (l *Leash) Detached() bool {
	word, _ := bufio.NewReader(l.in).ReadString('\n')
	return word == DetachWord
}
