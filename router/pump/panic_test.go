package pump

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func stumble() { panic("in a step") }

// Who logs a panic of Run needs to know where the step was, not where Run was
// called.
func TestPanicSaysWhere(t *testing.T) {
	var p Pump
	defer p.Close()
	here, there := pair(t)
	say(t, there, "x")
	defer func() {
		fault, ok := recover().(*Panic)
		if !ok || fault.Value != "in a step" || fault.String() != "in a step" || !strings.Contains(string(fault.Stack), "stumble") {
			t.Errorf("%+v", fault)
		}
	}()
	_ = p.Run(Work{FD: here, Step: func([]byte) bool { stumble(); return true }})
}

// Start says beforehand that there are no descriptors, and may be tried again.
func TestStart(t *testing.T) {
	var p Pump
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	none := unix.Rlimit{Cur: 0, Max: was.Max}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	before := p.Start()
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	if before == nil {
		t.Error("started without descriptors")
	}
	for range 2 {
		if err := p.Start(); err != nil {
			t.Error(err)
		}
	}
	p.Close()
	if err := p.Start(); err != ErrClosed {
		t.Errorf("a closed pump started: %v", err)
	}
}
