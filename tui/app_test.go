package tui

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lm-warden/warden/supervisor/control"
)

const testTimeout = 20 * time.Second // only ends a test that would hang

// terminal collects what is drawn, and tells when something appears.
type terminal struct {
	mu      sync.Mutex
	text    bytes.Buffer
	changed chan struct{}
}

func newTerminal() *terminal { return &terminal{changed: make(chan struct{}, 1)} }

func (o *terminal) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case o.changed <- struct{}{}:
	default:
	}
	return o.text.Write(p)
}

// await returns once words were drawn; what was drawn before them is forgotten.
func (o *terminal) await(t *testing.T, words string) {
	t.Helper()
	deadline := time.After(testTimeout)
	for {
		o.mu.Lock()
		if i := bytes.Index(o.text.Bytes(), []byte(words)); i >= 0 {
			o.text.Next(i + len(words))
			o.mu.Unlock()
			return
		}
		o.mu.Unlock()
		select {
		case <-o.changed:
		case <-deadline:
			t.Fatalf("%q was not drawn; the terminal holds %q", words, o.text.String())
		}
	}
}

// dashboard runs Run until the test ends it.
type dashboard struct {
	src    *fakeSource
	out    *terminal
	keys   *io.PipeWriter
	cancel context.CancelFunc
	done   chan struct{}
	result Result
	err    error
}

func open(t *testing.T, opts Options) *dashboard {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	in, keys := io.Pipe()
	d := &dashboard{src: newSource(), out: newTerminal(), keys: keys, cancel: cancel, done: make(chan struct{})}
	opts.In, opts.Out, opts.Zone = in, d.out, time.UTC
	go func() {
		defer close(d.done)
		d.result, d.err = Run(ctx, d.src, opts)
	}()
	t.Cleanup(func() {
		cancel()
		keys.Close()
		<-d.done
	})
	return d
}

func (d *dashboard) press(t *testing.T, keys string) {
	t.Helper()
	for _, k := range keys {
		if _, err := io.WriteString(d.keys, string(k)); err != nil {
			t.Fatal(err)
		}
	}
}

func (d *dashboard) wait(t *testing.T) {
	t.Helper()
	select {
	case <-d.done:
	case <-time.After(testTimeout):
		t.Fatal("the dashboard does not end")
	}
}

func now(s control.Status) control.Status {
	s.Now = time.Now()
	return s
}

func TestRunLeaves(t *testing.T) {
	for name, tt := range map[string]struct {
		mode Mode
		keys string
		want Action
	}{
		"q leaves top": {Top, "q", Quit}, "ctrl+c leaves top": {Top, "\x03", Quit}, "ctrl+c stops up": {Up, "\x03", Stopped},
		"q y stops up": {Up, "qy", Stopped}, "q d detaches": {Up, "qd", Detached},
	} {
		t.Run(name, func(t *testing.T) {
			d := open(t, Options{Mode: tt.mode})
			d.src.say(now(status(2, control.StateReady)))
			d.out.await(t, "2/2 ready")
			d.press(t, tt.keys)
			d.wait(t)
			if d.err != nil || d.result.Action != tt.want {
				t.Errorf("action %d, %v", d.result.Action, d.err)
			}
			d.out.await(t, "\x1b[?1049l") // the terminal has its own screen again
		})
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	d := open(t, Options{Mode: Up})
	d.src.say(now(status(1, control.StateReady)))
	d.out.await(t, "1/1 ready")
	d.cancel()
	d.wait(t)
	if d.err != nil || d.result.Action != Quit {
		t.Errorf("action %d, %v", d.result.Action, d.err)
	}
}

func TestRunCarriesOutOrders(t *testing.T) {
	d := open(t, Options{})
	d.src.say(now(status(2, control.StateReady)))
	d.out.await(t, "2/2 ready")
	order := func(keys, want, outcome string) {
		t.Helper()
		d.press(t, keys)
		select {
		case got := <-d.src.orders:
			if got != want {
				t.Fatalf("%q orders %q, want %q", keys, got, want)
			}
		case <-time.After(testTimeout):
			t.Fatalf("%q orders nothing", keys)
		}
		d.out.await(t, outcome)
	}
	order("a", "affinity qwen3-4b false", "affinity qwen3-4b: on -> off (24 sessions stay known)")
	order("jRy", "restart r1", "restart r1: ordered")
	d.src.refuse = &control.Error{Code: control.CodeWrongState, Message: "r1 is stopping"}
	order("Dy", "drain r1", "r1 is stopping")
}

// Two presses before the next status: the second one takes the first back, and goes out after it.
func TestAffinityPressedTwice(t *testing.T) {
	d := open(t, Options{})
	d.src.say(now(status(2, control.StateReady)))
	d.out.await(t, "2/2 ready")
	if _, err := io.WriteString(d.keys, "aa"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"affinity qwen3-4b false", "affinity qwen3-4b true"} {
		select {
		case got := <-d.src.orders:
			if got != want {
				t.Fatalf("orders %q, want %q", got, want)
			}
		case <-time.After(testTimeout):
			t.Fatalf("does not order %q", want)
		}
	}
}

// TestFastKeys: a held key, or a slow line, brings several in one read.
func TestFastKeys(t *testing.T) {
	d := open(t, Options{Mode: Up})
	d.src.say(now(status(3, control.StateReady)))
	d.out.await(t, "3/3 ready")
	if _, err := io.WriteString(d.keys, "jjRnDy"); err != nil {
		t.Fatal(err)
	}
	select {
	case got := <-d.src.orders:
		if got != "drain r2" {
			t.Errorf("orders %q, want drain r2", got)
		}
	case <-time.After(testTimeout):
		t.Fatal("orders nothing")
	}
	if _, err := io.WriteString(d.keys, "qd"); err != nil {
		t.Fatal(err)
	}
	d.wait(t)
	if d.result.Action != Detached {
		t.Errorf("action %d", d.result.Action)
	}
}

func TestRunFollowsTheLog(t *testing.T) {
	d := open(t, Options{})
	d.src.logs = []control.LogLine{{Replica: "r0", Text: "first line"}, {Replica: "r0", Text: "after a gap", Dropped: 7}}
	d.src.say(now(status(1, control.StateReady)))
	d.out.await(t, "1/1 ready")
	d.press(t, "l")
	d.out.await(t, "first line")
	d.out.await(t, "... 7 lines lost ...")
	d.out.await(t, "after a gap")
}

func TestRunFindsTheDaemonAgain(t *testing.T) {
	d := open(t, Options{})
	d.src.say(now(status(1, control.StateReady)))
	d.out.await(t, "1/1 ready")
	d.src.hangUp(errHungUp)
	d.out.await(t, "daemon not answering")
	d.src.say(now(status(3, control.StateReady)))
	d.out.await(t, "3/3 ready")
}

func TestLostErrorSaysWhy(t *testing.T) {
	a := &app{}
	if err := lostError(a.state); !errors.Is(err, ErrLost) {
		t.Error(err)
	}
}

func TestViewDrawsOnlyWhatChanged(t *testing.T) {
	var sent []any
	a := &app{}
	a.feed = newFeed(t.Context(), newSource(), func(m any) { sent = append(sent, m) })
	a.state.Size.W, a.state.Size.H = 80, 24
	first := a.View()
	if first != "" {
		t.Errorf("drew before anything was known: %q", first)
	}
	a.dirty = true
	drawn := a.View()
	if !strings.Contains(drawn, "warden") || a.dirty {
		t.Errorf("drew %q", drawn)
	}
	a.dirty = true
	if a.View() != drawn || a.redraw == nil || !a.dirty {
		t.Error("a second picture within 100 ms must be owed, not drawn")
	}
	a.redraw.Stop()
}
