package gpu

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// scriptedDriver is a driver whose answers the test chooses.
type scriptedDriver struct {
	opened  func() error
	sampled func() ([]Sample, error)
	watch   func(context.Context, func(XID))
}

func (d scriptedDriver) open() error {
	if d.opened == nil {
		return nil
	}
	return d.opened()
}
func (d scriptedDriver) detect() (Inventory, error)         { return Inventory{Driver: "1.2"}, nil }
func (d scriptedDriver) sample(time.Time) ([]Sample, error) { return d.sampled() }
func (d scriptedDriver) watcher() func(context.Context, func(XID)) {
	return d.watch
}

// dialogue runs serve over pipes in a bubble of fake time.
type dialogue struct {
	in    *io.PipeWriter
	out   *bufio.Scanner
	ended chan error
}

func talk(t *testing.T, d driver) *dialogue {
	inRead, inWrite := io.Pipe()
	outRead, outWrite := io.Pipe()
	s := &dialogue{in: inWrite, out: bufio.NewScanner(outRead), ended: make(chan error, 1)}
	go func() {
		s.ended <- serve(t.Context(), inRead, outWrite, d)
		_ = outWrite.Close()
	}()
	return s
}

func (s *dialogue) ask(t *testing.T, line string) {
	t.Helper()
	if _, err := io.WriteString(s.in, line+"\n"); err != nil {
		t.Fatal(err)
	}
}

func (s *dialogue) hear(t *testing.T) message {
	t.Helper()
	if !s.out.Scan() {
		t.Fatalf("no more output: %v", s.out.Err())
	}
	m, err := parseMessage(s.out.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestServe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fault := make(chan XID, 1)
		s := talk(t, scriptedDriver{
			sampled: func() ([]Sample, error) { return nil, errors.New("the roof leaks") },
			watch: func(ctx context.Context, report func(XID)) {
				for {
					select {
					case x := <-fault:
						report(x)
					case <-ctx.Done():
						return
					}
				}
			},
		})
		if m := s.hear(t); !m.Ready || m.ID != 0 {
			t.Errorf("greeting: %+v", m)
		}
		s.ask(t, `{"id":1,"op":"detect"}`)
		if m := s.hear(t); m.ID != 1 || m.Inventory == nil || m.Inventory.Driver != "1.2" {
			t.Errorf("detect: %+v", m)
		}
		s.ask(t, `{"id":2,"op":"sample"}`)
		if m := s.hear(t); m.ID != 2 || m.Error == nil || m.Error.Code != CodeUnknown || m.Error.Why != "the roof leaks" {
			t.Errorf("sample: %+v", m)
		}
		s.ask(t, `{"id":3,"op":"dance"}`)
		if m := s.hear(t); m.ID != 3 || m.Error == nil || m.Error.Code != CodeNoSuchFunction {
			t.Errorf("unknown operation: %+v", m)
		}
		fault <- XID{UUID: "GPU-a", Code: 79, At: time.Now()}
		if m := s.hear(t); m.ID != 0 || m.XID == nil || m.XID.Code != 79 {
			t.Errorf("fault: %+v", m)
		}
		_ = s.in.Close()
		if err := <-s.ended; err != nil {
			t.Errorf("at the end of input: %v", err)
		}
	})
}

func TestServeReportsWhyItCannotStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := talk(t, scriptedDriver{opened: func() error { return nvmlError(CodeDriverNotLoaded, "nvmlInit_v2", "") }})
		if m := s.hear(t); m.Ready || m.Error == nil || m.Error.Code != CodeDriverNotLoaded || m.Error.Fix == "" {
			t.Errorf("greeting: %+v", m)
		}
		if err := <-s.ended; err != nil {
			t.Error(err)
		}
		_ = s.in.Close()
	})
}

// When warden dies while NVML hangs, the child must not stay behind.
func TestServeEndsWithItsInputEvenDuringACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		s := talk(t, scriptedDriver{sampled: func() ([]Sample, error) { <-hang; return nil, nil }})
		s.hear(t)
		s.ask(t, `{"id":1,"op":"sample"}`)
		synctest.Wait()
		_ = s.in.Close()
		if err := <-s.ended; err != nil {
			t.Error(err)
		}
		close(hang)
	})
}

func TestServeRefusesGarbage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := talk(t, scriptedDriver{})
		s.hear(t)
		s.ask(t, "what?")
		if err := <-s.ended; err == nil || !strings.Contains(err.Error(), "cannot read a request") {
			t.Errorf("got %v", err)
		}
		_ = s.in.Close()
	})
}

func FuzzParseMessage(f *testing.F) {
	for _, m := range []message{
		{Ready: true},
		{ID: 1, Samples: []Sample{{UUID: "GPU-a", Utilization: new(0.5)}}},
		{ID: 2, Inventory: &Inventory{Devices: []Device{{CPUs: []int{1, 2}}}, Links: []Link{{A: 0, B: 1, Level: LevelSystem}}}},
		{Error: nvmlError(CodeGPULost, "", "")},
		{XID: &XID{Code: 79}},
	} {
		line, err := json.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(line)
	}
	f.Add([]byte("Loading NVML"))
	f.Add([]byte("{"))
	f.Fuzz(func(t *testing.T, line []byte) {
		m, err := parseMessage(line)
		if err != nil {
			return
		}
		again, err := json.Marshal(m)
		if err != nil {
			t.Skip("times beyond year 9999 do not marshal")
		}
		if _, err := parseMessage(again); err != nil {
			t.Errorf("%s became %s: %v", line, again, err)
		}
	})
}

func TestTail(t *testing.T) {
	tests := map[string]struct {
		writes []string
		want   string
	}{
		"nothing":   {nil, ""},
		"one line":  {[]string{"symbol lookup ", "error\n"}, "symbol lookup error"},
		"last line": {[]string{"first\nsecond\n\n"}, "second"},
		"bounded":   {[]string{strings.Repeat("x", 3*tailSize)}, strings.Repeat("x", tailSize)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var tl tail
			for _, w := range test.writes {
				if n, err := tl.Write([]byte(w)); n != len(w) || err != nil {
					t.Errorf("Write: %d, %v", n, err)
				}
			}
			if got := tl.lastLine(); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
