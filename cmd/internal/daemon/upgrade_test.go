package daemon

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/lm-warden/warden/supervisor/control"
)

// Orders that come in the moment between the choice of a successor and the end
// of the control socket would be lost, and are refused.
func TestOrdersToALeavingWardenAreRefused(t *testing.T) {
	d := empty(Options{Log: slog.New(slog.DiscardHandler)})
	if err := d.orderable(); err != nil {
		t.Errorf("serving: %v", err)
	}
	if !d.leave(&successor{}) {
		t.Fatal("it does not leave")
	}
	_, upgrade := d.Upgrade(t.Context())
	for name, err := range map[string]error{"upgrade": upgrade, "shutdown": d.Shutdown(t.Context(), control.ShutdownRequest{})} {
		var refused *control.Error
		if !errors.As(err, &refused) || refused.Code != control.CodeWrongState || refused.Hint == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := d.Shutdown(t.Context(), control.ShutdownRequest{Now: true}); err != nil {
		t.Errorf("a stop without waiting is passed on, not refused: %v", err)
	}
	stopping := empty(Options{Log: slog.New(slog.DiscardHandler)})
	if err := stopping.Shutdown(t.Context(), control.ShutdownRequest{}); err != nil || stopping.orderable() == nil {
		t.Errorf("shutdown: %v; orders after it: %v", err, stopping.orderable())
	}
}
