// Package exit says how a command line ends: the exit codes, errors that carry
// one together with a way out, and the form in which such an end travels from
// one warden process to the next.
package exit

import (
	"context"
	"errors"
	"fmt"

	"github.com/lm-warden/warden/configs"
	"github.com/lm-warden/warden/supervisor/control"
)

// Exit codes; `warden help exit-codes` prints them.
const (
	OK        = 0
	Failed    = 1
	Usage     = 2
	NoDaemon  = 3
	Config    = 4
	Preflight = 5
	Start     = 6
	Forced    = 130
)

// Meaning is an exit code in words.
type Meaning struct {
	Code int
	Text string
}

// Meanings is the list that help and manual print.
func Meanings() []Meaning {
	return []Meaning{
		{OK, "done; also a stop after Ctrl-C or SIGTERM"},
		{Failed, "failed; `warden status`: not every replica is ready"},
		{Usage, "wrong use of a flag or argument"},
		{NoDaemon, "no warden is running"},
		{Config, "the configuration is invalid"},
		{Preflight, "a check before the start failed (GPU, vLLM, port)"},
		{Start, "the start failed: no replica became ready"},
		{Forced, "forced by a second Ctrl-C"},
	}
}

// failure is an error with an exit code and a way out.
type failure struct {
	code int
	err  error
	fix  string
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }
func (f *failure) Hint() string {
	if f.fix != "" || f.err == nil {
		return f.fix
	}
	return HintOf(f.err)
}

// Fail wraps err for an exit code; a nil err stays nil. Without a fix, err's own
// hint is the way out.
func Fail(code int, err error, fix string) error {
	if err == nil {
		return nil
	}
	return &failure{code: code, err: err, fix: fix}
}

// ErrForced is a second Ctrl-C.
var ErrForced = errors.New("killed on the second signal")

// Silent ends with a code and prints nothing: the command said it all.
type Silent struct{ Code int }

func (s *Silent) Error() string { return fmt.Sprintf("exit code %d", s.Code) }

// CodeOf is the exit code that err ends a command with.
func CodeOf(err error) int {
	var f *failure
	var key *configs.KeyError
	switch {
	case err == nil:
		return OK
	case errors.Is(err, ErrForced):
		return Forced
	case errors.As(err, &f):
		return f.code
	case errors.Is(err, control.ErrNoDaemon):
		return NoDaemon
	case errors.As(err, &key):
		return Config
	case errors.Is(err, context.Canceled):
		return OK
	}
	return Failed
}

// HintOf is the way out that err knows, "" for none.
func HintOf(err error) string {
	var hinter interface{ Hint() string }
	if errors.As(err, &hinter) {
		return hinter.Hint()
	}
	var refused *control.Error
	if errors.As(err, &refused) {
		return refused.Hint
	}
	return ""
}
