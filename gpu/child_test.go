package gpu

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// actor is a child played by the test, in fake time.
type actor struct {
	*process
	asked chan request
	// dies says whether SIGKILL works; false is a process inside the driver.
	dies  bool
	death sync.Once // by itself, or by a kill
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

func newActor(pid int) *actor {
	a := &actor{asked: make(chan request, 10), dies: true}
	a.process = &process{
		pid:      pid,
		messages: make(chan message),
		exited:   make(chan struct{}),
		abandon:  make(chan struct{}),
		requests: writerFunc(func(b []byte) (int, error) {
			var r request
			if err := json.Unmarshal(b, &r); err != nil {
				return 0, err
			}
			a.asked <- r
			return len(b), nil
		}),
		kill: func() {
			if a.dies {
				a.exit(errors.New("killed"))
			}
		},
	}
	return a
}

func (a *actor) exit(why error) {
	a.death.Do(func() {
		a.ending = why
		close(a.exited)
	})
}

// say delivers a message unless warden has lost interest.
func (a *actor) say(m message) {
	select {
	case a.messages <- m:
	case <-a.abandon:
	}
}

// obey greets and answers everything with one sample.
func (a *actor) obey() {
	a.say(message{Ready: true})
	for {
		select {
		case r := <-a.asked:
			a.say(message{ID: r.ID, Samples: []Sample{{Index: int(r.ID)}}, Inventory: &Inventory{Driver: "1"}})
		case <-a.abandon:
			return
		case <-a.exited:
			return
		}
	}
}

// stage runs a Child in a bubble of fake time whose processes the test plays:
// play gets each new one, on its own goroutine.
func stage(t *testing.T, play func(n int, a *actor), script func(t *testing.T, c *Child, started func() []time.Time)) {
	synctest.Test(t, func(t *testing.T) {
		var starts []time.Time
		c := newChild(ChildOptions{}.withDefaults(), func() (*process, error) {
			starts = append(starts, time.Now())
			a := newActor(1000 + len(starts))
			go play(len(starts), a)
			return a.process, nil
		})
		defer func() {
			_ = c.Close()             // scripts that care about its error call it themselves
			time.Sleep(2 * time.Hour) // the actors die of old age
		}()
		script(t, c, func() []time.Time { synctest.Wait(); return starts })
	})
}

func obedient(_ int, a *actor) { a.obey() }

func TestSilentChildCostsItsBudgetOnce(t *testing.T) {
	play := func(n int, a *actor) {
		if n > 1 {
			a.obey()
			return
		}
		a.dies = false
		a.say(message{Ready: true})
		<-a.abandon // killed, but it takes 10 minutes to die
		time.Sleep(10 * time.Minute)
		a.exit(nil)
	}
	stage(t, play, func(t *testing.T, c *Child, started func() []time.Time) {
		begin := time.Now()
		if _, err := c.Sample(t.Context()); codeOfError(err) != CodeNoAnswer {
			t.Fatalf("got %v", err)
		}
		if took := time.Since(begin); took > 2*time.Second || took < time.Second {
			t.Errorf("the silent child cost %v, its budget is 2 s", took)
		}
		// While it does not die, every call fails at once, and nothing joins it.
		for range 60 {
			time.Sleep(5 * time.Second)
			begin = time.Now()
			if _, err := c.Sample(t.Context()); codeOfError(err) != CodeNoAnswer || time.Since(begin) != 0 {
				t.Fatalf("got %v after %v", err, time.Since(begin))
			}
		}
		if n := len(started()); n != 1 {
			t.Fatalf("%d processes beside one that does not die", n-1)
		}
		time.Sleep(6 * time.Minute)
		if samples, err := c.Sample(t.Context()); err != nil || len(samples) != 1 {
			t.Errorf("after its death: %v, %v", samples, err)
		}
		if n := len(started()); n != 2 {
			t.Errorf("%d starts, want 2", n)
		}
	})
}

func TestBackoffDoubles(t *testing.T) {
	crash := func(_ int, a *actor) { a.exit(errors.New("boom")) }
	stage(t, crash, func(t *testing.T, c *Child, started func() []time.Time) {
		begin := time.Now()
		for time.Since(begin) < 100*time.Second {
			call := time.Now()
			if _, err := c.Sample(t.Context()); err == nil || err.Error() != "boom" || time.Since(call) != 0 {
				t.Fatalf("got %v after %v", err, time.Since(call))
			}
			time.Sleep(time.Second)
		}
		var at []int
		for _, s := range started() {
			at = append(at, int(s.Sub(begin).Seconds()))
		}
		// 1, 2, 4, 8, 16 s, then 30 s each.
		if want := []int{0, 1, 3, 7, 15, 31, 61, 91}; !slices.Equal(at, want) {
			t.Errorf("started at %v s, want %v", at, want)
		}
	})
}

func TestAnswerResetsBackoff(t *testing.T) {
	play := func(n int, a *actor) {
		if n == 4 {
			a.say(message{Ready: true})
			r := <-a.asked
			a.say(message{ID: r.ID, Samples: []Sample{{}}})
		}
		if n == 6 {
			a.obey()
			return
		}
		a.exit(errors.New("boom"))
	}
	stage(t, play, func(t *testing.T, c *Child, started func() []time.Time) {
		for range 20 {
			_, _ = c.Sample(t.Context()) // the outcome is in the starts
			time.Sleep(time.Second)
		}
		starts := started()
		if len(starts) < 6 {
			t.Fatalf("%d starts", len(starts))
		}
		// Without the reset the pause after the fourth would be 8 s.
		if pause := starts[4].Sub(starts[3]); pause > 2*time.Second {
			t.Errorf("pause after an answer: %v", pause)
		}
	})
}

func TestSlowStart(t *testing.T) {
	play := func(_ int, a *actor) {
		time.Sleep(12 * time.Second) // 4 GPUs without the persistence daemon
		a.obey()
	}
	stage(t, play, func(t *testing.T, c *Child, started func() []time.Time) {
		detected := make(chan error, 1)
		go func() { _, err := c.Detect(t.Context()); detected <- err }()
		synctest.Wait()
		begin := time.Now()
		if _, err := c.Sample(t.Context()); codeOfError(err) != CodeBusy || time.Since(begin) != 2*time.Second {
			t.Errorf("a sample during the start: %v after %v", err, time.Since(begin))
		}
		if err := <-detected; err != nil {
			t.Errorf("the detection that waited: %v", err)
		}
		if n := len(started()); n != 1 {
			t.Errorf("%d starts: a slow start is no failure", n)
		}
	})
}

func TestStartThatNeverEnds(t *testing.T) {
	play := func(_ int, a *actor) { <-a.abandon }
	stage(t, play, func(t *testing.T, c *Child, _ func() []time.Time) {
		begin := time.Now()
		if _, err := c.Detect(t.Context()); codeOfError(err) != CodeNoAnswer || time.Since(begin) != 30*time.Second {
			t.Errorf("got %v after %v", err, time.Since(begin))
		}
	})
}

func TestStartFailureIsReportedUntilTheNextStart(t *testing.T) {
	play := func(n int, a *actor) {
		if n == 1 {
			a.say(message{Error: nvmlError(CodeDriverMismatch, "nvmlInit_v2", "")})
			a.exit(nil)
			return
		}
		a.obey()
	}
	stage(t, play, func(t *testing.T, c *Child, _ func() []time.Time) {
		for range 2 { // the second call finds the child gone, the reason is still the first
			if _, err := c.Sample(t.Context()); codeOfError(err) != CodeDriverMismatch {
				t.Fatalf("got %v", err)
			}
			synctest.Wait()
		}
		time.Sleep(time.Second)
		if _, err := c.Sample(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestChildThatEndsWhileIdle(t *testing.T) {
	play := func(n int, a *actor) {
		if n > 1 {
			a.obey()
			return
		}
		go a.obey()
		time.Sleep(10 * time.Second)
		a.exit(errors.New("gone"))
	}
	stage(t, play, func(t *testing.T, c *Child, _ func() []time.Time) {
		if _, err := c.Sample(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if _, err := c.Sample(t.Context()); err == nil || err.Error() != "gone" {
			t.Errorf("right after its end: %v", err)
		}
		time.Sleep(time.Second)
		if _, err := c.Sample(t.Context()); err != nil {
			t.Errorf("after the pause: %v", err)
		}
	})
}

func TestCancelledCallLeavesAndTheNextGetsItsOwnAnswer(t *testing.T) {
	play := func(_ int, a *actor) {
		a.say(message{Ready: true})
		for {
			select {
			case r := <-a.asked:
				time.Sleep(time.Second)
				a.say(message{ID: r.ID, Samples: []Sample{{Index: int(r.ID)}}})
			case <-a.abandon:
				return
			}
		}
	}
	stage(t, play, func(t *testing.T, c *Child, started func() []time.Time) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		begin := time.Now()
		if _, err := c.Sample(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != 100*time.Millisecond {
			t.Errorf("got %v after %v", err, time.Since(begin))
		}
		samples, err := c.Sample(t.Context())
		if err != nil || samples[0].Index != 2 {
			t.Errorf("the second call got %v, %v", samples, err)
		}
		if n := len(started()); n != 1 {
			t.Errorf("%d starts: a caller that leaves is no failure of the child", n)
		}
	})
}

func TestErrorAnswerReplacesTheChild(t *testing.T) {
	play := func(n int, a *actor) {
		if n > 1 {
			a.obey()
			return
		}
		a.say(message{Ready: true})
		r := <-a.asked
		a.say(message{ID: r.ID, Error: nvmlError(CodeUnknown, "nvmlDeviceGetMemoryInfo", "")})
	}
	stage(t, play, func(t *testing.T, c *Child, started func() []time.Time) {
		for range 2 { // the second within the back-off
			if _, err := c.Sample(t.Context()); codeOfError(err) != CodeUnknown {
				t.Errorf("got %v", err)
			}
		}
		time.Sleep(time.Second)
		if _, err := c.Sample(t.Context()); err != nil {
			t.Error(err)
		}
		if n := len(started()); n != 2 {
			t.Errorf("%d starts, want 2", n)
		}
	})
}

func TestAnswerWithoutInventory(t *testing.T) {
	play := func(_ int, a *actor) {
		a.say(message{Ready: true})
		r := <-a.asked
		a.say(message{ID: r.ID})
		<-a.abandon
	}
	stage(t, play, func(t *testing.T, c *Child, _ func() []time.Time) {
		if _, err := c.Detect(t.Context()); err == nil || !strings.Contains(err.Error(), "without an inventory") {
			t.Errorf("got %v", err)
		}
	})
}

func TestEventsDropTheOldest(t *testing.T) {
	play := func(_ int, a *actor) {
		a.say(message{Ready: true})
		r := <-a.asked
		for i := range 100 {
			a.say(message{XID: &XID{Code: i}})
		}
		a.say(message{ID: r.ID, Samples: []Sample{{}}})
		<-a.abandon
	}
	stage(t, play, func(t *testing.T, c *Child, _ func() []time.Time) {
		if _, err := c.Sample(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		var codes []int
		for x := range c.Events() {
			codes = append(codes, x.Code)
		}
		if len(codes) != 64 || codes[0] != 36 || codes[63] != 99 {
			t.Errorf("%d events, %v", len(codes), codes)
		}
	})
}

func TestClose(t *testing.T) {
	t.Run("unused", func(t *testing.T) {
		c := NewChild(ChildOptions{})
		if err := errors.Join(c.Close(), c.Close()); err != nil {
			t.Error(err)
		}
		if _, ok := <-c.Events(); ok {
			t.Error("an event out of nothing")
		}
		if _, err := c.Sample(t.Context()); codeOfError(err) != CodeChildEnded {
			t.Errorf("a call after Close: %v", err)
		}
	})
	t.Run("during a call", func(t *testing.T) {
		play := func(_ int, a *actor) { a.say(message{Ready: true}); <-a.abandon }
		stage(t, play, func(t *testing.T, c *Child, _ func() []time.Time) {
			called := make(chan error, 1)
			go func() { _, err := c.Sample(t.Context()); called <- err }()
			synctest.Wait()
			begin := time.Now()
			if err := c.Close(); err != nil || time.Since(begin) != 0 {
				t.Errorf("Close: %v after %v", err, time.Since(begin))
			}
			if err := <-called; codeOfError(err) != CodeChildEnded {
				t.Errorf("the call: %v", err)
			}
		})
	})
	t.Run("a child that does not die", func(t *testing.T) {
		play := func(_ int, a *actor) { a.dies = false; a.obey(); time.Sleep(time.Hour); a.exit(nil) }
		stage(t, play, func(t *testing.T, c *Child, _ func() []time.Time) {
			if _, err := c.Sample(t.Context()); err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			err := c.Close()
			if err == nil || !strings.Contains(err.Error(), "pid 1001") || time.Since(begin) != 2*time.Second {
				t.Errorf("Close: %v after %v", err, time.Since(begin))
			}
		})
	})
	t.Run("in good health", func(t *testing.T) {
		stage(t, obedient, func(t *testing.T, c *Child, _ func() []time.Time) {
			if inv, err := c.Detect(t.Context()); err != nil || inv.Driver != "1" {
				t.Fatal(inv, err)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	})
}

func TestChildThatCannotBeStarted(t *testing.T) {
	for name, argv := range map[string][]string{"no command": nil, "no such file": {"/nonexistent/warden", "__nvml"}} {
		t.Run(name, func(t *testing.T) {
			c := NewChild(ChildOptions{Argv: argv})
			defer func() { _ = c.Close() }()
			if _, err := c.Detect(t.Context()); codeOfError(err) != CodeChildEnded || !strings.Contains(err.Error(), "could not be started") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func codeOfError(err error) int {
	if e, ok := errors.AsType[*NVMLError](err); ok {
		return e.Code
	}
	return 0
}
