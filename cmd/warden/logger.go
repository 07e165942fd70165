package main

import (
	"io"
	"log/slog"
	"os"

	"github.com/lm-warden/warden/tui"
)

// newLogger writes what the daemon reports. In front of a person or a service
// the progress lines already tell the starts, so only warnings are added; behind
// a terminal the log tells everything.
func newLogger(w io.Writer, mode tui.ProgressMode, behind bool) *slog.Logger {
	opts := &slog.HandlerOptions{Level: slog.LevelWarn}
	if behind {
		opts.Level = slog.LevelInfo
	}
	if mode == tui.ProgressJSON {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}

// envDumb says that the terminal or its owner wants no drawing.
func envDumb() bool { return os.Getenv("TERM") == "dumb" || os.Getenv("CI") != "" }
