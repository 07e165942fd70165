package server

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lm-warden/warden/supervisor/simengine/prompt"
)

// Faults is what goes wrong on demand. It is set by KEY=VALUE from the command
// line (--sim-fault), by POST /sim/fault with a JSON object of the same keys,
// and by Set in process. An empty value or "none" switches a fault off.
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
type Faults struct {
	mu      sync.Mutex
	values  map[string]string
	set     faultSet
	rng     *rand.Rand
	changed chan struct{} // closed and replaced at each change
}

// faultSet is the parsed form of the values.
type faultSet struct {
	stall       string
	healthDelay time.Duration
	slow        float64
	errors      []errorShare
	cut         prompt.Cut
	process     ProcessFaults
}

type errorShare struct {
	status int
	share  float64
}

// ProcessFaults are the faults that only a process can have.
type ProcessFaults struct {
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

func newFaults(seed uint64) *Faults {
	return &Faults{
		values:  make(map[string]string),
		rng:     rand.New(rand.NewPCG(seed, 0xfa017)),
		changed: make(chan struct{}),
	}
}

// Set changes faults all at once, or none of them if one is not valid.
func (f *Faults) Set(values map[string]string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	next := maps.Clone(f.values)
	for key, value := range values {
		if value == "" || value == "none" {
			value = ""
		}
		next[key] = value
	}
	set, err := parseFaults(next)
	if err != nil {
		return err
	}
	maps.DeleteFunc(next, func(_, value string) bool { return value == "" })
	f.values, f.set = next, set
	close(f.changed)
	f.changed = make(chan struct{})
	return nil
}

// Values returns the faults that are on.
func (f *Faults) Values() map[string]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.values)
}

// Process returns the process's part and a channel that closes at the next
// change.
func (f *Faults) Process() (ProcessFaults, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.set.process, f.changed
}

func (f *Faults) current() (faultSet, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.set, f.changed
}

var faultParsers = map[string]func(*faultSet, string) error{
	"stall": func(s *faultSet, v string) error {
		s.stall = v
		return oneOf(v, "engine", "all", "health")
	},
	"health-delay": func(s *faultSet, v string) (err error) { s.healthDelay, err = duration(v); return err },
	"slow": func(s *faultSet, v string) (err error) {
		s.slow, err = strconv.ParseFloat(v, 64)
		if err == nil && !(s.slow > 0) {
			err = fmt.Errorf("must be above 0")
		}
		return err
	},
	"error": parseErrorShares,
	"cut":   parseCut,
	"exit":  parseExit,
	"engine-death": func(s *faultSet, v string) (err error) {
		s.process.EngineDeath = true
		s.process.DeathAfter, err = duration(v)
		return err
	},
	"crash":       func(s *faultSet, v string) (err error) { s.process.CrashMean, err = duration(v); return err },
	"ignore-term": func(s *faultSet, v string) (err error) { s.process.IgnoreTerm, err = strconv.ParseBool(v); return err },
	"hold":        func(s *faultSet, v string) (err error) { s.process.Hold, err = duration(v); return err },
	"log-flood": func(s *faultSet, v string) (err error) {
		s.process.LogFlood, err = strconv.Atoi(v)
		if err == nil && s.process.LogFlood < 0 {
			err = fmt.Errorf("must not be negative")
		}
		return err
	},
}

func parseFaults(values map[string]string) (faultSet, error) {
	var set faultSet
	for _, key := range slices.Sorted(maps.Keys(values)) {
		parse, ok := faultParsers[key]
		if !ok {
			return faultSet{}, fmt.Errorf("unknown fault %q; known are %s", key, strings.Join(slices.Sorted(maps.Keys(faultParsers)), ", "))
		}
		if values[key] == "" {
			continue
		}
		if err := parse(&set, values[key]); err != nil {
			return faultSet{}, fmt.Errorf("fault %s=%s: %w", key, values[key], err)
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

func parseErrorShares(s *faultSet, v string) error {
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

func parseCut(s *faultSet, v string) error {
	kind, after, _ := strings.Cut(v, ":")
	n, err := strconv.Atoi(after)
	if err != nil || n < 0 {
		return fmt.Errorf("%q is no number of events", after)
	}
	s.cut = prompt.Cut{Kind: prompt.CutKind(kind), After: n}
	return oneOf(kind, string(prompt.Reset), string(prompt.Close), string(prompt.Truncate), string(prompt.StreamError))
}

func parseExit(s *faultSet, v string) error {
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
func (f *Faults) wait(ctx context.Context, cond func(faultSet) bool) bool {
	for {
		set, changed := f.current()
		if !cond(set) {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// admit lets a request in, unless the whole server stalls.
func (f *Faults) admit(r *http.Request) bool {
	return f.wait(r.Context(), func(s faultSet) bool { return s.stall == "all" })
}

// engineMay lets the engine take its next step.
func (f *Faults) engineMay(ctx context.Context) bool {
	return f.wait(ctx, func(s faultSet) bool { return s.stall == "engine" || s.stall == "all" })
}

func (f *Faults) delayHealth(r *http.Request) bool {
	if !f.wait(r.Context(), func(s faultSet) bool { return s.stall == "health" }) {
		return false
	}
	set, _ := f.current()
	return sleep(r.Context(), set.healthDelay)
}

// slower stretches a step.
func (f *Faults) slower(d time.Duration) time.Duration {
	set, _ := f.current()
	if set.slow == 0 {
		return d
	}
	return time.Duration(float64(d) * set.slow)
}

// drawError decides whether a request fails, and how.
func (f *Faults) drawError() *apiError {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.set.errors {
		if f.rng.Float64() < e.share {
			return scriptedError(e.status)
		}
	}
	return nil
}

// scriptedError is an error that was asked for.
func scriptedError(status int) *apiError {
	kind := strings.ReplaceAll(http.StatusText(status), " ", "") + "Error"
	return &apiError{Status: status, Type: kind, Message: fmt.Sprintf("%s error %d, as asked for", prompt.Label, status)}
}

// cut is how an answer is to break off: by its own script, or by the fault.
func (f *Faults) cut(script prompt.Cut) prompt.Cut {
	if script.Kind != prompt.NoCut {
		return script
	}
	set, _ := f.current()
	return set.cut
}

func (f *Faults) serveGet(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, f.Values())
}

func (f *Faults) serveSet(w http.ResponseWriter, r *http.Request) {
	var raw map[string]any
	if apiErr := readBody(w, r, &raw); apiErr != nil {
		failOpenAI(w, apiErr)
		return
	}
	values := make(map[string]string, len(raw))
	for key, value := range raw {
		if value == nil {
			value = ""
		}
		if number, ok := value.(float64); ok {
			value = strconv.FormatFloat(number, 'f', -1, 64)
		}
		values[key] = fmt.Sprint(value)
	}
	if err := f.Set(values); err != nil {
		failOpenAI(w, badRequest("", "%v", err))
		return
	}
	f.serveGet(w, r)
}

// sleep waits for d; false if ctx ended before.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
