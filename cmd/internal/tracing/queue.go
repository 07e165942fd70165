package tracing

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// queue takes ended spans and hands them on in batches. Unlike the SDK's own
// processor it counts what it drops.
type queue struct {
	settings Settings
	exporter sdk.SpanExporter
	log      *slog.Logger

	spans   chan sdk.ReadOnlySpan
	dropped atomic.Uint64
	failing bool // the last batch was not taken; run's alone
}

func newQueue(s Settings, exporter sdk.SpanExporter, log *slog.Logger) *queue {
	return &queue{settings: s, exporter: exporter, log: log, spans: make(chan sdk.ReadOnlySpan, s.Queue)}
}

// OnStart is part of sdk.SpanProcessor.
func (q *queue) OnStart(context.Context, sdk.ReadWriteSpan) {}

// OnEnd takes one span. It never waits.
func (q *queue) OnEnd(span sdk.ReadOnlySpan) {
	if !span.SpanContext().IsSampled() {
		return
	}
	select {
	case q.spans <- span:
	default:
		q.dropped.Add(1)
	}
}

// Shutdown and ForceFlush are part of sdk.SpanProcessor; run does their work.
func (q *queue) Shutdown(context.Context) error   { return nil }
func (q *queue) ForceFlush(context.Context) error { return nil }

// flushTime is how long the last spans may take at the end: warden's stop must
// not wait for a collector that is gone.
const flushTime = 2 * time.Second

// run sends batches until ctx ends, then the rest.
func (q *queue) run(ctx context.Context) error {
	sending, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(flushTime, cancel) })()
	for ctx.Err() == nil {
		if batch := q.collect(ctx); len(batch) > 0 {
			q.send(ctx, sending, batch)
		}
	}
	for len(q.spans) > 0 {
		q.send(ctx, sending, q.take(nil))
	}
	return q.exporter.Shutdown(sending)
}

// collect waits for a span and returns it with those that follow, until the
// batch is full, the delay is over or ctx has ended.
func (q *queue) collect(ctx context.Context) (batch []sdk.ReadOnlySpan) {
	select {
	case s := <-q.spans:
		batch = q.take(append(batch, s))
	case <-ctx.Done():
		return nil
	}
	late := time.NewTimer(q.settings.Delay)
	defer late.Stop()
	for len(batch) < q.settings.Batch {
		select {
		case s := <-q.spans:
			batch = append(batch, s)
		case <-late.C:
			return batch
		case <-ctx.Done():
			return batch
		}
	}
	return batch
}

// take adds what is queued already, up to a full batch.
func (q *queue) take(batch []sdk.ReadOnlySpan) []sdk.ReadOnlySpan {
	for len(q.spans) > 0 && len(batch) < q.settings.Batch {
		batch = append(batch, <-q.spans)
	}
	return batch
}

// tries is how often a batch is offered; between them lie retryPause and twice
// of it, unless the collector names another time.
const (
	tries      = 3
	retryPause = time.Second
	maxPause   = 30 * time.Second
)

// send offers a batch to the collector until it is taken, refused for good, or
// was offered often enough. Once ctx has ended it is offered once.
func (q *queue) send(ctx, sending context.Context, batch []sdk.ReadOnlySpan) {
	var err error
	for try := range tries {
		err = q.export(sending, batch)
		var later *retryable
		if !errors.As(err, &later) || try == tries-1 || !pause(ctx, later.pause(try)) {
			break
		}
	}
	switch {
	case err != nil:
		q.dropped.Add(uint64(len(batch)))
		if !q.failing {
			q.log.Warn("spans are dropped until the collector takes them again", "err", err)
		}
	case q.failing:
		q.log.Info("the collector takes spans again", "dropped", q.dropped.Load())
	}
	q.failing = err != nil
}

func (q *queue) export(ctx context.Context, batch []sdk.ReadOnlySpan) error {
	ctx, cancel := context.WithTimeout(ctx, q.settings.Timeout)
	defer cancel()
	return q.exporter.ExportSpans(ctx, batch)
}

// pause waits for d; false when ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// retryable is a failure that may pass by itself.
type retryable struct {
	err   error
	after time.Duration // what the collector asked for, 0 nothing
}

func (r *retryable) Error() string { return r.err.Error() }
func (r *retryable) Unwrap() error { return r.err }

func (r *retryable) pause(try int) time.Duration {
	if r.after > 0 {
		return min(r.after, maxPause)
	}
	return retryPause << try
}

var _ sdk.SpanProcessor = (*queue)(nil)
