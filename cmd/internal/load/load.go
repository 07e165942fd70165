// Package load is the load generator of `warden bench` and of the demo: agent
// sessions in a closed loop, each resending its whole conversation every turn.
//
// Reading order: load.go (the closed loop), session.go (one conversation),
// turn.go (one request and what its stream says), api.go (in which words), text.go (synthetic words),
// calibrate.go (how many characters are a token), replay.go and drift.go (a
// recorded load again), report.go (the figures),
// table.go and plot.go (what a person sees of them).
package load

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Shape is the form of one synthetic agent session. Lengths are in tokens.
type Shape struct {
	System    int `json:"system_tokens"`     // shared by all sessions: system prompt and tools
	First     int `json:"first_tokens"`      // first user message, unique to the session
	Next      int `json:"next_tokens"`       // each further user message
	Turns     int `json:"turns"`             // turns of a session
	MaxOutput int `json:"max_output_tokens"` // max_tokens of a turn
	// Gap is the mean of the exponentially distributed pause between turns
	// (the agent's tools); 0: the next turn starts when the last one ends.
	Gap time.Duration `json:"-"`
}

// Reference is the load of the reference measurement: a system prompt of about
// 3.5k tokens, a unique first message of about 7.3k, five more turns of 400.
func Reference() Shape {
	return Shape{System: 3500, First: 7300, Next: 400, Turns: 6, MaxOutput: 256}
}

// Scaled divides all lengths by n, for engines slower than a GPU.
func (s Shape) Scaled(n int) Shape {
	if n > 1 {
		s.System, s.First, s.Next, s.MaxOutput = s.System/n, s.First/n, s.Next/n, max(1, s.MaxOutput/n)
	}
	return s
}

// Options says what to run against what.
type Options struct {
	// URL is the base address, http://host:port without a path.
	URL string
	// Model is the served name asked for.
	Model string
	// API is one of APIs; "" is Chat.
	API string
	// APIKey is sent as a bearer token when set.
	APIKey string
	// Sessions is how many sessions run at the same time.
	Sessions int
	// Duration of the run; a turn in flight at its end is cut and counted as
	// unfinished.
	Duration time.Duration
	Shape    Shape
	// Stagger is the pause between the starts of the sessions, so that they do
	// not run in step; 0 starts all at once, as the reference load does.
	Stagger time.Duration
	// CharsPerToken turns lengths in tokens into characters of text; 0 means 4.
	CharsPerToken float64
	// Seed makes the texts and pauses repeatable.
	Seed uint64
	// Part tells runs of one Seed apart: they share the system prompt and
	// nothing else, so that a run does not find what another left in a cache.
	Part uint64
	// IgnoreEOS asks engines to always write MaxOutput tokens.
	IgnoreEOS bool
	// TLS is how an https:// address is trusted; nil: as the system does.
	TLS *tls.Config
	// Client sends the requests; nil: one with enough connections.
	Client *http.Client
	// OnTurn is called after each finished turn, from several goroutines.
	OnTurn func(Turn)
}

func (o *Options) setDefaults() error {
	if !strings.HasPrefix(o.URL, "http://") && !strings.HasPrefix(o.URL, "https://") {
		return fmt.Errorf("address %q: must begin with http:// or https://", o.URL)
	}
	o.URL = strings.TrimRight(o.URL, "/")
	if o.API == "" {
		o.API = Chat
	}
	if !slices.Contains(APIs, o.API) {
		return fmt.Errorf("API %q: must be one of %s", o.API, strings.Join(APIs, ", "))
	}
	if o.Sessions < 1 {
		return fmt.Errorf("sessions %d: must be at least 1", o.Sessions)
	}
	if o.Shape == (Shape{}) {
		o.Shape = Reference()
	}
	if o.Shape.Turns < 1 {
		return errors.New("a session needs at least one turn")
	}
	if o.CharsPerToken == 0 {
		o.CharsPerToken = 4
	}
	if o.Client == nil {
		o.Client = &http.Client{Transport: &http.Transport{
			MaxIdleConnsPerHost: o.Sessions, IdleConnTimeout: 4 * time.Second, DisableCompression: true, TLSClientConfig: o.TLS.Clone(),
		}}
	}
	return nil
}

// Run is Measure and its report; when every turn fails the first failure is
// returned as the error.
func Run(ctx context.Context, o Options) (Report, error) {
	m, err := Measure(ctx, o)
	if err != nil {
		return Report{}, err
	}
	return m.Report()
}

// Measure keeps Sessions conversations going until Duration is over or ctx ends
// and returns what every turn measured. Turns that fail are counted, not fatal.
func Measure(ctx context.Context, o Options) (Measurement, error) {
	if err := o.setDefaults(); err != nil {
		return Measurement{}, err
	}
	defer o.Client.CloseIdleConnections()
	if o.Duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.Duration)
		defer cancel()
	}
	rec := &recorder{started: time.Now(), onTurn: o.OnTurn}
	var wg sync.WaitGroup
	for slot := range o.Sessions {
		wg.Go(func() { runSlot(ctx, &o, slot, rec) })
	}
	wg.Wait()
	rec.ended = time.Now()
	return Measurement{Sessions: o.Sessions, runs: []*recorder{rec}}, nil
}

// Measurement is what one or more runs of the same load measured.
type Measurement struct {
	Sessions int
	runs     []*recorder
}

// With is both measurements taken together.
func (m Measurement) With(o Measurement) Measurement {
	return Measurement{Sessions: o.Sessions, runs: append(slices.Clone(m.runs), o.runs...)}
}

// runSlot runs one session after another until ctx ends.
func runSlot(ctx context.Context, o *Options, slot int, rec *recorder) {
	pause(ctx, time.Duration(slot)*o.Stagger)
	for n := 0; ctx.Err() == nil; n++ {
		rng := rand.New(rand.NewPCG(o.Seed+o.Part<<32, uint64(slot)<<32|uint64(n)))
		s := newSession(o, rng)
		finished := s.run(ctx, rec)
		if ctx.Err() == nil {
			rec.session(finished)
		}
	}
}

// recorder collects what the slots measure.
type recorder struct {
	mu       sync.Mutex
	started  time.Time
	ended    time.Time
	turns    []Turn
	sessions []sessionEnd
	cut      []Turn // in flight when the run ended
	onTurn   func(Turn)
}

type sessionEnd struct {
	took     time.Duration
	complete bool
}

func (r *recorder) turn(t Turn) {
	r.mu.Lock()
	r.turns = append(r.turns, t)
	r.mu.Unlock()
	if r.onTurn != nil {
		r.onTurn(t)
	}
}

func (r *recorder) cutTurn(t Turn) {
	r.mu.Lock()
	r.cut = append(r.cut, t)
	r.mu.Unlock()
}

func (r *recorder) session(e sessionEnd) {
	r.mu.Lock()
	r.sessions = append(r.sessions, e)
	r.mu.Unlock()
}
