package benchpath

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lm-warden/warden/cmd/internal/process"
)

// Cell is one measurement of one arm. Figures that were not taken are nil.
type Cell struct {
	Work        string  `json:"work"`
	Kind        string  `json:"kind"`
	Streams     int     `json:"streams"`
	BodyBytes   int     `json:"body_bytes"`
	Arm         string  `json:"arm"`
	Round       int     `json:"round"`
	LoadAverage float64 `json:"load_average_before"`

	Requests     int    `json:"requests"`
	Failed       int    `json:"failed"`
	FirstFailure string `json:"first_failure,omitempty"`

	FirstByteP50 *float64 `json:"first_byte_milliseconds_p50"`
	FirstByteP99 *float64 `json:"first_byte_milliseconds_p99"`
	DelayP50     *float64 `json:"event_delay_milliseconds_p50"`
	DelayP99     *float64 `json:"event_delay_milliseconds_p99"`

	// Of the window in which CPU time was read.
	WindowSeconds  float64  `json:"window_seconds"`
	Events         int64    `json:"window_events"`
	WindowRequests int      `json:"window_requests"`
	Pace           *float64 `json:"events_ratio_to_pace"` // below 1 the machine was too slow
	CPUSeconds     *float64 `json:"proxy_cpu_seconds"`    // without what the idle proxy takes
	RSSPerStream   *float64 `json:"rss_bytes_per_stream"`
	Goroutines     *float64 `json:"goroutines_per_stream"`
}

// bench is one cell while it runs.
type bench struct {
	work   work
	arm    *arm
	length time.Duration
	clock  clock
	events atomic.Int64

	mu       sync.Mutex
	outcomes []outcome
}

// client is one of a cell's clients, with its body.
type client struct {
	*caller
	n    int // counted from 0
	body []byte
	turn int
	t    template
	b    *bench
}

func (c *client) ask() {
	c.turn++
	c.t.setTurn(c.body, c.turn)
	took := c.call(c.body, c.b.work.Script, c.b.work.stream(), func(n int) { c.b.events.Add(int64(n)) })
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	c.b.outcomes = append(c.b.outcomes, took)
}

// measure runs one cell. firstSession numbers the cell's sessions, which are
// nobody else's.
func measure(ctx context.Context, w work, a *arm, length time.Duration, firstSession int, c clock) (Cell, error) {
	b := &bench{work: w, arm: a, length: length, clock: c}
	clients, err := b.clients(firstSession)
	if err != nil {
		return Cell{}, err
	}
	defer func() {
		for _, c := range clients {
			c.close()
		}
	}()
	cell := Cell{Work: w.String(), Kind: w.Kind, Streams: w.Streams, BodyBytes: w.BodyBytes, Arm: a.name}
	if w.Kind == paced {
		err = b.once(ctx, clients, &cell)
	} else {
		err = b.inLoops(ctx, clients, &cell)
	}
	b.summarise(&cell)
	return cell, err
}

func (b *bench) clients(firstSession int) ([]*client, error) {
	t, err := newTemplate(modelName, b.work.BodyBytes, b.work.Script, b.work.stream())
	if err != nil {
		return nil, err
	}
	var out []*client
	for i := range b.work.Streams {
		session := firstSession + i
		caller, err := newCaller(b.arm.urls[i%len(b.arm.urls)], fmt.Sprintf("bench-"+holeFormat, session), b.clock)
		if err != nil {
			return nil, err
		}
		out = append(out, &client{caller: caller, n: i, body: t.of(session), t: t, b: b})
	}
	return out, nil
}

// once starts every stream once, spread over the ramp, and reads the proxy's
// counters in the window in which all of them run and none begins or ends.
func (b *bench) once(ctx context.Context, clients []*client, cell *Cell) error {
	n := len(clients)
	var all sync.WaitGroup
	began := time.Now()
	for i, c := range clients {
		all.Go(func() {
			if sleep(ctx, time.Until(began.Add(ramp(n)*time.Duration(i)/time.Duration(n)))) == nil {
				c.ask()
			}
		})
	}
	defer all.Wait()
	opens := began.Add(ramp(n) + settle)
	closes := began.Add(b.work.Script.Interval*time.Duration(b.work.Script.Events) - settle/2)
	if latest := opens.Add(b.length); closes.After(latest) {
		closes = latest
	}
	if err := sleep(ctx, time.Until(opens)); err != nil {
		return err
	}
	before, events, at, err := b.read()
	if err != nil {
		return err
	}
	if err := sleep(ctx, time.Until(closes)); err != nil {
		return err
	}
	after, eventsAfter, atAfter, err := b.read()
	if err != nil {
		return err
	}
	cell.WindowSeconds, cell.Events = atAfter.Sub(at).Seconds(), eventsAfter-events
	due := float64(n) * cell.WindowSeconds / b.work.Script.Interval.Seconds()
	cell.Pace = of(float64(cell.Events) / due)
	b.charge(cell, before, after)
	return b.perStream(ctx, cell, after)
}

// inLoops has every client ask once, to open its connection, and then again and
// again for the length of the cell, which begins when the last one has begun.
// The window ends with the last answer.
func (b *bench) inLoops(ctx context.Context, clients []*client, cell *Cell) error {
	each := func(f func(*client)) {
		var all sync.WaitGroup
		for _, c := range clients {
			all.Go(func() { f(c) })
		}
		all.Wait()
	}
	each((*client).ask)
	b.mu.Lock()
	warm := b.outcomes
	b.outcomes = nil
	b.mu.Unlock()
	for _, o := range warm {
		if o.err != nil { // it counts; the rest would only repeat it
			b.outcomes = warm
			return nil
		}
	}
	before, events, at, err := b.read()
	if err != nil {
		return err
	}
	ends := at.Add(b.offset(len(clients)) + b.length)
	each(func(c *client) {
		if sleep(ctx, b.offset(c.n)) != nil {
			return
		}
		for time.Now().Before(ends) && ctx.Err() == nil {
			c.ask()
		}
	})
	after, eventsAfter, atAfter, err := b.read()
	if err != nil {
		return err
	}
	cell.WindowSeconds, cell.Events, cell.WindowRequests = atAfter.Sub(at).Seconds(), eventsAfter-events, len(b.outcomes)
	b.charge(cell, before, after)
	return ctx.Err()
}

// offset spreads clients whose streams all take the same time: else their
// requests would come in bursts for ever.
func (b *bench) offset(client int) time.Duration {
	whole := b.work.Script.Interval * time.Duration(b.work.Script.Events)
	return whole * time.Duration(client) / time.Duration(b.work.Streams)
}

// read takes the counters together.
func (b *bench) read() (u process.Usage, events int64, at time.Time, err error) {
	u, err = b.arm.usage()
	return u, b.events.Load(), time.Now(), err
}

// leastForCPU is the number of events from which a proxy's time is theirs: what
// it takes when idle, 3 ms a second, is known to a few milliseconds only.
const leastForCPU = 2000

// charge puts down what the proxy took in the window, less what it takes when
// it has nothing to do.
func (b *bench) charge(cell *Cell, before, after process.Usage) {
	if b.arm.run.Process == nil || b.work.Kind == paced && cell.Events < leastForCPU {
		return
	}
	cpu := (after.CPU - before.CPU).Seconds() - b.arm.idle*cell.WindowSeconds
	cell.CPUSeconds = of(max(0, cpu))
}

// leastForMemory is the number of streams from which a proxy's memory is theirs
// and not its own.
const leastForMemory = 200

func (b *bench) perStream(ctx context.Context, cell *Cell, after process.Usage) error {
	if b.arm.run.Process == nil || b.work.Streams < max(leastForMemory, b.arm.most) {
		return nil
	}
	b.arm.most = b.work.Streams
	n := float64(b.work.Streams)
	cell.RSSPerStream = of(float64(after.RSS-b.arm.fresh.RSS) / n)
	if b.arm.goroutines == nil {
		return nil
	}
	now, err := b.arm.goroutines(ctx)
	// To the hundredth: of a thousand streams' goroutines a few are warden's own,
	// which come and go.
	cell.Goroutines = of(math.Round(100*float64(now-b.arm.freshGoroutines)/n) / 100)
	return err
}

// Samples that a percentile needs.
const (
	leastForP50 = 8
	leastForP99 = 200
)

func (b *bench) summarise(cell *Cell) {
	var first, delays []float64
	for _, o := range b.outcomes {
		cell.Requests++
		if o.err != nil {
			if cell.Failed++; cell.FirstFailure == "" {
				cell.FirstFailure = o.err.Error()
			}
			continue
		}
		first = append(first, 1e3*o.firstByte.Seconds())
		for _, d := range o.delays {
			delays = append(delays, float64(d)/1e6)
		}
	}
	cell.FirstByteP50, cell.FirstByteP99 = percentile(first, 50, leastForP50), percentile(first, 99, leastForP99)
	cell.DelayP50, cell.DelayP99 = percentile(delays, 50, leastForP50), percentile(delays, 99, leastForP99)
}

func of(v float64) *float64 { return &v }

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
