package signals

import (
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func send(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(os.Getpid(), sig); err != nil {
		t.Fatal(err)
	}
}

func await(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(10 * time.Second):
		t.Fatalf("%s: not within 10s", what)
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestTheFirstStopsTheSecondForces(t *testing.T) {
	ctx, s := Watch(t.Context(), HangupStops)
	defer s.Close()
	if ctx.Err() != nil || s.Count() != 0 {
		t.Error("stopped before a signal came")
	}
	send(t, syscall.SIGTERM)
	await(t, "the stop", ctx.Done())
	if closed(s.Second()) {
		t.Error("one signal forces")
	}
	send(t, os.Interrupt.(syscall.Signal))
	await(t, "the second", s.Second())
	if s.Count() != 2 {
		t.Errorf("counted %d", s.Count())
	}
}

func TestHangup(t *testing.T) {
	if signal.Ignored(syscall.SIGHUP) {
		t.Skip("these tests run under nohup, which is respected")
	}
	ctx, s := Watch(t.Context(), HangupUpgrades)
	defer s.Close()
	send(t, syscall.SIGHUP)
	await(t, "the order to upgrade", s.Hangups())
	if ctx.Err() != nil || s.Count() != 0 {
		t.Error("an upgrade counts as a stop")
	}
	s.Close()

	ctx, s = Watch(t.Context(), HangupStops)
	defer s.Close()
	send(t, syscall.SIGHUP)
	await(t, "the stop", ctx.Done())
	if closed(s.Hangups()) {
		t.Error("a closed terminal upgrades")
	}
}
