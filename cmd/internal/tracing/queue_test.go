package tracing

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"

	"github.com/lm-warden/warden/router/record"
)

// exporter takes batches as answer says, and notes when and how large.
type exporter struct {
	mu      sync.Mutex
	answers []error // of the first batches; the later ones are taken
	offered []offer
	block   bool // never answers
}

type offer struct {
	at    time.Time
	spans int
}

func (e *exporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	e.mu.Lock()
	e.offered = append(e.offered, offer{time.Now(), len(spans)})
	var err error
	if n := len(e.offered); n <= len(e.answers) {
		err = e.answers[n-1]
	}
	e.mu.Unlock()
	if e.block {
		<-ctx.Done()
		return ctx.Err()
	}
	return err
}

func (e *exporter) Shutdown(context.Context) error { return nil }

// spansFor makes a Tracer whose spans go to q.
func spansFor(q *queue) *Tracer {
	return &Tracer{tracer: sdk.NewTracerProvider(sdk.WithSampler(sdk.AlwaysSample()), sdk.WithSpanProcessor(q)).Tracer("")}
}

func add(tracer *Tracer, n int) {
	for range n {
		_, end := tracer.Begin(arrived, record.TraceContext{})
		end(answered())
	}
}

func TestBatchesAreOfferedAgain(t *testing.T) {
	busy := &retryable{err: errors.New("503")}
	for name, c := range map[string]struct {
		answers []error
		at      []time.Duration // when the batch is offered
		dropped uint64
	}{
		"taken":         {nil, []time.Duration{5 * time.Second}, 0},
		"once busy":     {[]error{busy}, []time.Duration{5 * time.Second, 6 * time.Second}, 0},
		"always busy":   {[]error{busy, busy, busy}, []time.Duration{5 * time.Second, 6 * time.Second, 8 * time.Second}, 3},
		"when to":       {[]error{&retryable{err: busy, after: 7 * time.Second}}, []time.Duration{5 * time.Second, 12 * time.Second}, 0},
		"far too late":  {[]error{&retryable{err: busy, after: time.Hour}}, []time.Duration{5 * time.Second, 35 * time.Second}, 0},
		"refused":       {[]error{errors.New("400")}, []time.Duration{5 * time.Second}, 3},
		"a late answer": {[]error{busy, errors.New("400")}, []time.Duration{5 * time.Second, 6 * time.Second}, 3},
	} {
		synctest.Test(t, func(t *testing.T) {
			e := &exporter{answers: c.answers}
			q := newQueue(defaults(), e, slog.New(slog.DiscardHandler))
			ctx, cancel := context.WithCancel(t.Context())
			began := time.Now()
			go func() { _ = q.run(ctx) }()
			add(spansFor(q), 3)
			<-time.After(time.Minute)
			cancel()
			synctest.Wait()
			if len(e.offered) != len(c.at) || q.dropped.Load() != c.dropped {
				t.Errorf("%s: offered %d times, %d dropped; want %d and %d", name, len(e.offered), q.dropped.Load(), len(c.at), c.dropped)
			}
			for i, o := range e.offered {
				if i < len(c.at) && (o.at.Sub(began) != c.at[i] || o.spans != 3) {
					t.Errorf("%s: offer %d of %d spans after %v, want %v", name, i, o.spans, o.at.Sub(began), c.at[i])
				}
			}
		})
	}
}

func TestAFullBatchDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := defaults()
		s.Batch = 4
		e := &exporter{}
		q := newQueue(s, e, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		go func() { _ = q.run(ctx) }()
		add(spansFor(q), 9)
		synctest.Wait()
		if len(e.offered) != 2 || time.Since(began) != 0 {
			t.Errorf("%d full batches of 2 were offered at once", len(e.offered))
		}
		cancel()
		synctest.Wait()
		if len(e.offered) != 3 || e.offered[2].spans != 1 {
			t.Errorf("the last span was not offered at the end: %v", e.offered)
		}
	})
}

func TestTheEndDoesNotWaitForACollector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &exporter{block: true}
		q := newQueue(defaults(), e, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- q.run(ctx) }()
		add(spansFor(q), 2000)
		synctest.Wait()
		began := time.Now()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if d := time.Since(began); d != flushTime {
			t.Errorf("the end took %v, want %v", d, flushTime)
		}
		if q.dropped.Load() != 2000 {
			t.Errorf("%d spans are counted as dropped", q.dropped.Load())
		}
	})
}
