package gpu

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"
)

// ChildOptions say how to start the NVML child and how long to wait for it.
// Only Argv is required.
type ChildOptions struct {
	Argv []string // a command whose body is ServeNVML, e.g. /proc/self/exe __nvml
	Env  []string // nil = this process's environment

	// Budget is the time for a sample once the child is ready; 0 = 2 s, far
	// above a healthy driver's milliseconds, and well below a user's patience.
	Budget time.Duration
	// StartBudget is the time for loading NVML and opening the GPUs; 0 = 30 s,
	// because without the persistence daemon the driver starts each GPU then,
	// one after another, at 1 to 3 s each.
	StartBudget time.Duration
	// DetectBudget is the time for a whole detection, which makes some hundred
	// calls on a machine with NVLink; 0 = 10 s.
	DetectBudget time.Duration
	// Backoff is the pause after a failed child, doubled for each further
	// failure up to MaxBackoff; 0 = 1 s and 30 s.
	Backoff    time.Duration
	MaxBackoff time.Duration
}

func (o ChildOptions) withDefaults() ChildOptions {
	set := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	set(&o.Budget, 2*time.Second)
	set(&o.StartBudget, 30*time.Second)
	set(&o.DetectBudget, 10*time.Second)
	set(&o.Backoff, time.Second)
	set(&o.MaxBackoff, 30*time.Second)
	return o
}

// Child is the Source over an NVML child process. The process starts with the
// first call; after a failure the next call past the back-off starts a new
// one, and calls before that return the failure at once. A process that does
// not even die from SIGKILL (it sleeps inside the driver) is never joined by a
// second one.
//
// One goroutine, run, owns the process and all fields below done.
type Child struct {
	opts  ChildOptions
	spawn func() (*process, error)

	calls  chan *call
	events chan XID
	start  sync.Once
	stop   sync.Once
	quit   chan struct{} // closed by Close
	done   chan struct{} // closed when run has ended

	current  *process // nil: none
	ready    bool     // current has greeted and was not dropped
	dropped  bool     // current was killed and is not reaped yet
	nextID   uint64
	failure  error // why there is no child; nil before the first
	failures int   // in a row
	retryAt  time.Time
}

// call is one operation on its way through run.
type call struct {
	op    operation
	reply chan result // buffered: run never waits for a caller that left
}

type result struct {
	message message
	err     error
}

// NewChild prepares a Child. Nothing is started before the first call.
func NewChild(opts ChildOptions) *Child {
	opts = opts.withDefaults()
	return newChild(opts, func() (*process, error) {
		if len(opts.Argv) == 0 {
			return nil, errors.New("no command given")
		}
		return spawn(opts.Argv, opts.Env)
	})
}

func newChild(opts ChildOptions, spawn func() (*process, error)) *Child {
	return &Child{
		opts:   opts,
		spawn:  spawn,
		calls:  make(chan *call),
		events: make(chan XID, 64),
		quit:   make(chan struct{}),
		done:   make(chan struct{}),
	}
}

// Detect looks at all GPUs. It waits for a child that still starts, so it may
// take StartBudget plus DetectBudget. The error is an *NVMLError or ctx's.
func (c *Child) Detect(ctx context.Context) (Inventory, error) {
	m, err := c.do(ctx, opDetect, c.opts.StartBudget+c.opts.DetectBudget)
	if err != nil {
		return Inventory{}, err
	}
	if m.Inventory == nil {
		return Inventory{}, nvmlError(CodeChildEnded, "", "it answered without an inventory")
	}
	return *m.Inventory, nil
}

// Sample measures all GPUs. It never takes longer than Budget. The error is an
// *NVMLError or ctx's.
func (c *Child) Sample(ctx context.Context) ([]Sample, error) {
	m, err := c.do(ctx, opSample, c.opts.Budget)
	return m.Samples, err
}

// Events delivers the XIDs that the driver reports while a child runs. Nobody
// has to read it: the oldest is dropped when 64 wait. It is closed by Close.
func (c *Child) Events() <-chan XID { return c.events }

// Close ends the child and waits until it is reaped, at most Budget: one that
// sleeps inside the driver is left to the kernel, and named in the error.
func (c *Child) Close() error {
	c.stop.Do(func() { close(c.quit) })
	c.start.Do(func() { // run never started: nothing to end
		close(c.events)
		close(c.done)
	})
	<-c.done
	if c.current != nil {
		return nvmlError(CodeNoAnswer, "", fmt.Sprintf("the NVML child (pid %d) does not end, it sleeps inside the driver", c.current.pid))
	}
	return nil
}

func (c *Child) do(ctx context.Context, op operation, limit time.Duration) (message, error) {
	c.start.Do(func() { go c.run() })
	// This timer is for calls that wait behind another or behind a start. A
	// silent child is run's to notice, which takes patience, a little less.
	timer := time.NewTimer(limit)
	defer timer.Stop()
	cl := &call{op: op, reply: make(chan result, 1)}
	calls := c.calls
	for {
		select {
		case calls <- cl:
			calls = nil // handed over
		case r := <-cl.reply:
			return r.message, r.err
		case <-ctx.Done():
			return message{}, ctx.Err()
		case <-timer.C:
			return message{}, nvmlError(CodeBusy, "", "")
		case <-c.done:
			return message{}, nvmlError(CodeChildEnded, "", "the GPU watch was closed")
		}
	}
}

// run owns the child: it serves one call at a time, forwards XIDs, and notices
// a child that ends by itself.
func (c *Child) run() {
	defer close(c.done)
	defer close(c.events)
	defer c.end()
	for {
		var messages chan message
		var exited chan struct{}
		if c.current != nil {
			messages, exited = c.current.messages, c.current.exited
		}
		select {
		case <-c.quit:
			return
		case cl := <-c.calls:
			m, err := c.exchange(cl.op)
			cl.reply <- result{m, err}
		case m := <-messages:
			c.note(m)
		case <-exited:
			c.reaped()
		}
	}
}

// end kills the child and waits for it, at most Budget.
func (c *Child) end() {
	if c.current == nil {
		return
	}
	c.current.drop()
	timer := time.NewTimer(c.opts.Budget)
	defer timer.Stop()
	select {
	case <-c.current.exited:
		c.current = nil
	case <-timer.C:
	}
}

// patience is how long run waits for an answer: less than the caller does, so
// that the caller hears what is wrong and not only that it took too long.
func (c *Child) patience(op operation) time.Duration {
	limit := c.opts.Budget
	if op == opDetect {
		limit = c.opts.DetectBudget
	}
	return limit - limit/8
}

// exchange has one operation done by the child, starting it when needed.
func (c *Child) exchange(op operation) (message, error) {
	if err := c.ensure(); err != nil {
		return message{}, err
	}
	c.nextID++
	id := c.nextID
	line, err := json.Marshal(request{ID: id, Op: op})
	if err != nil {
		return message{}, err
	}
	if _, err := c.current.requests.Write(append(line, '\n')); err != nil {
		// The pipe broke, so the child is ending; how is worth more than EPIPE.
		return c.await(c.patience(op), func(message) bool { return false })
	}
	m, err := c.await(c.patience(op), func(m message) bool { return m.ID == id })
	if err != nil {
		return message{}, err
	}
	if m.Error != nil {
		// One GPU's failure comes inside a good answer; this is the session
		// with the driver, which only a new process can renew.
		c.abandon(m.Error)
		return message{}, m.Error
	}
	c.failures = 0
	return m, nil
}

// ensure returns nil when a child is ready for a request.
func (c *Child) ensure() error {
	if c.ready {
		return nil
	}
	if c.dropped || time.Now().Before(c.retryAt) {
		return c.failure
	}
	p, err := c.spawn()
	if err != nil {
		c.failed(nvmlError(CodeChildEnded, "", "it could not be started: "+err.Error()))
		return c.failure
	}
	c.current, c.ready = p, false
	m, err := c.await(c.opts.StartBudget, func(m message) bool { return m.Ready || m.Error != nil })
	if err != nil {
		return err
	}
	if m.Error != nil {
		c.abandon(m.Error)
		return m.Error
	}
	c.ready = true
	return nil
}

// await reads messages until one fits, the child ends, or the time is up; in
// the last two cases the child is finished. Messages that do not fit are
// answers to nobody, or XIDs.
func (c *Child) await(limit time.Duration, fits func(message) bool) (message, error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		select {
		case m := <-c.current.messages:
			if fits(m) {
				return m, nil
			}
			c.note(m)
		case <-c.current.exited:
			c.reaped()
			return message{}, c.failure
		case <-timer.C:
			c.abandon(nvmlError(CodeNoAnswer, "", fmt.Sprintf("no answer within %v; its process was ended", limit)))
			return message{}, c.failure
		case <-c.quit:
			return message{}, nvmlError(CodeChildEnded, "", "the GPU watch was closed")
		}
	}
}

// note takes a message that nobody waits for.
func (c *Child) note(m message) {
	if m.XID == nil {
		return
	}
	for {
		select {
		case c.events <- *m.XID:
			return
		default:
		}
		select {
		case <-c.events: // full: the oldest goes
		default:
		}
	}
}

// abandon gives up on a child that lives: it is killed and reaped later.
func (c *Child) abandon(why error) {
	c.failed(why)
	c.ready, c.dropped = false, true
	c.current.drop()
}

// reaped notes that the current child is gone. If it was given up before, the
// reason for that stays the failure.
func (c *Child) reaped() {
	if !c.dropped {
		c.failed(c.current.ending)
	}
	c.current, c.ready, c.dropped = nil, false, false
}

// failed sets the failure and the time before which no new child is started.
func (c *Child) failed(why error) {
	pause := c.opts.MaxBackoff
	if c.failures < 16 { // beyond, the shift would overflow
		pause = min(c.opts.Backoff<<c.failures, c.opts.MaxBackoff)
	}
	c.failures++
	c.failure = why
	c.retryAt = time.Now().Add(pause)
}
