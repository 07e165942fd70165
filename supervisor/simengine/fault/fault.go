// Package fault holds what goes wrong with a simulated engine on demand.
package fault

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lm-warden/warden/supervisor/simengine/prompt"
)

// Set is what goes wrong on demand. It is set by KEY=VALUE from the command
// line (--sim-fault), by POST /sim/fault with a JSON object of the same keys,
// and by Apply in process. An empty value or "none" switches a fault off.
//
//	stall=engine     the engine stops; /health stays 200, counters freeze
//	stall=all        nothing answers, though connections are accepted
//	stall=health     only /health does not answer
//	health-delay=3s  /health is slow
//	slow=2.5         the engine takes so many times as long for each step
//	error=503:0.2,429:0.1   these shares of requests fail with these codes
//	cut=reset:3      each answer breaks off after so many events; the kinds are
//	                 reset, close, truncate and stream-error
//
// The rest is played by the process around the server:
//
//	exit=1:5s        exit with this code after this time
//	engine-death=5s  EngineCore dies after this time
//	crash=10m        EngineCore dies at random, so often on average
//	ignore-term=true SIGTERM and SIGINT do nothing
//	hold=20s         EngineCore keeps its memory so long after the end
//	log-flood=1000   so many log lines a second
type Set struct {
	mu      sync.Mutex
	values  map[string]string
	now     settings
	rng     *rand.Rand
	changed chan struct{} // closed and replaced at each change
}

// settings is the parsed form of the values.
type settings struct {
	stall       string
	healthDelay time.Duration
	slow        float64
	errors      []errorShare
	cut         prompt.Cut
	process     Process
}

type errorShare struct {
	status int
	share  float64
}

// Process are the faults that only a process can have.
type Process struct {
	Exit        bool
	ExitCode    int
	ExitAfter   time.Duration
	EngineDeath bool
	DeathAfter  time.Duration
	CrashMean   time.Duration // 0 = never
	IgnoreTerm  bool
	Hold        time.Duration
	LogFlood    int // lines per second
}

// New returns an engine without faults; seed decides the random ones.
func New(seed uint64) *Set {
	return &Set{
		values:  make(map[string]string),
		rng:     rand.New(rand.NewPCG(seed, 0xfa017)),
		changed: make(chan struct{}),
	}
}

// Apply changes faults all at once, or none of them if one is not valid.
func (f *Set) Apply(values map[string]string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	next := maps.Clone(f.values)
	for key, value := range values {
		if value == "none" {
			value = ""
		}
		next[key] = value
	}
	set, err := parse(next)
	if err != nil {
		return err
	}
	maps.DeleteFunc(next, func(_, value string) bool { return value == "" })
	f.values, f.now = next, set
	close(f.changed)
	f.changed = make(chan struct{})
	return nil
}

// Values returns the faults that are on.
func (f *Set) Values() map[string]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.values)
}

// Process returns the process's part and a channel that closes at the next
// change.
func (f *Set) Process() (Process, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now.process, f.changed
}

func (f *Set) current() (settings, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now, f.changed
}

// parsers read one fault each; values are never empty.
var parsers = map[string]func(*settings, string) error{
	"stall": func(s *settings, v string) error {
		s.stall = v
		return oneOf(v, "engine", "all", "health")
	},
	"health-delay": func(s *settings, v string) (err error) { s.healthDelay, err = duration(v); return err },
	"slow": func(s *settings, v string) (err error) {
		s.slow, err = strconv.ParseFloat(v, 64)
		if err == nil && !(s.slow > 0) {
			err = fmt.Errorf("must be above 0")
		}
		return err
	},
	"error": parseErrorShares,
	"cut":   parseCut,
	"exit":  parseExit,
	"engine-death": func(s *settings, v string) (err error) {
		s.process.EngineDeath = true
		s.process.DeathAfter, err = duration(v)
		return err
	},
	"crash":       func(s *settings, v string) (err error) { s.process.CrashMean, err = duration(v); return err },
	"ignore-term": func(s *settings, v string) (err error) { s.process.IgnoreTerm, err = strconv.ParseBool(v); return err },
	"hold":        func(s *settings, v string) (err error) { s.process.Hold, err = duration(v); return err },
	"log-flood": func(s *settings, v string) (err error) {
		s.process.LogFlood, err = strconv.Atoi(v)
		if err == nil && s.process.LogFlood < 0 {
			err = fmt.Errorf("must not be negative")
		}
		return err
	},
}

func parse(values map[string]string) (settings, error) {
	var set settings
	for _, key := range slices.Sorted(maps.Keys(values)) {
		read, ok := parsers[key]
		if !ok {
			return settings{}, fmt.Errorf("unknown fault %q; known are %s", key, strings.Join(slices.Sorted(maps.Keys(parsers)), ", "))
		}
		if values[key] == "" {
			continue
		}
		if err := read(&set, values[key]); err != nil {
			return settings{}, fmt.Errorf("fault %s=%s: %w", key, values[key], err)
		}
	}
	return set, nil
}

func oneOf(v string, allowed ...string) error {
	if !slices.Contains(allowed, v) {
		return fmt.Errorf("must be one of %s", strings.Join(allowed, ", "))
	}
	return nil
}

func duration(v string) (time.Duration, error) {
	d, err := time.ParseDuration(v)
	if err == nil && d < 0 {
		err = fmt.Errorf("must not be negative")
	}
	return d, err
}

func parseErrorShares(s *settings, v string) error {
	for _, part := range strings.Split(v, ",") {
		code, share, _ := strings.Cut(part, ":")
		status, err := strconv.Atoi(code)
		if err != nil || status < 400 || status > 599 {
			return fmt.Errorf("%q is no error status between 400 and 599", code)
		}
		p := 1.0
		if share != "" {
			p, err = strconv.ParseFloat(share, 64)
		}
		if err != nil || !(p >= 0 && p <= 1) {
			return fmt.Errorf("share %q is outside 0 to 1", share)
		}
		s.errors = append(s.errors, errorShare{status: status, share: p})
	}
	return nil
}

func parseCut(s *settings, v string) error {
	kind, after, _ := strings.Cut(v, ":")
	n, err := strconv.Atoi(after)
	if err != nil || n < 0 {
		return fmt.Errorf("%q is no number of events", after)
	}
	s.cut = prompt.Cut{Kind: prompt.CutKind(kind), After: n}
	return oneOf(kind, string(prompt.Reset), string(prompt.Close), string(prompt.Truncate), string(prompt.StreamError))
}

func parseExit(s *settings, v string) error {
	code, after, _ := strings.Cut(v, ":")
	n, err := strconv.Atoi(code)
	if err != nil || n < 0 || n > 255 {
		return fmt.Errorf("exit code %q is outside 0 to 255", code)
	}
	s.process.Exit, s.process.ExitCode = true, n
	if after != "" {
		s.process.ExitAfter, err = duration(after)
	}
	return err
}

// wait blocks while cond holds for the current faults; false if ctx ended.
func (f *Set) wait(ctx context.Context, cond func(settings) bool) bool {
	for {
		set, changed := f.current()
		if !cond(set) {
			return ctx.Err() == nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// Admit waits while the whole server stalls; false if ctx ended.
func (f *Set) Admit(ctx context.Context) bool {
	return f.wait(ctx, func(s settings) bool { return s.stall == "all" })
}

// EngineMay waits while the engine stalls; false if ctx ended.
func (f *Set) EngineMay(ctx context.Context) bool {
	return f.wait(ctx, func(s settings) bool { return s.stall == "engine" || s.stall == "all" })
}

// Health waits while /health stalls and then as long as it is slow; false if
// ctx ended.
func (f *Set) Health(ctx context.Context) bool {
	if !f.wait(ctx, func(s settings) bool { return s.stall == "health" }) {
		return false
	}
	set, _ := f.current()
	return Sleep(ctx, set.healthDelay)
}

// Sleep waits for d; false if ctx has ended.
func Sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// Slower stretches the time of a step.
func (f *Set) Slower(d time.Duration) time.Duration {
	set, _ := f.current()
	if set.slow == 0 {
		return d
	}
	return time.Duration(float64(d) * set.slow)
}

// DrawError decides whether a request fails, and with which HTTP status; 0
// means that it does not.
func (f *Set) DrawError() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.now.errors {
		if f.rng.Float64() < e.share {
			return e.status
		}
	}
	return 0
}

// Cut is how an answer is to break off: by its own script, or by the fault.
func (f *Set) Cut(script prompt.Cut) prompt.Cut {
	if script.Kind != prompt.NoCut {
		return script
	}
	set, _ := f.current()
	return set.cut
}
