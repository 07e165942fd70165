package tracing

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/propagation"
	otelsdk "go.opentelemetry.io/otel/sdk"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/lm-warden/warden/router/record"
)

// scope names the code that makes the spans.
const scope = "github.com/lm-warden/warden/router"

// Options are what a Tracer is told by the daemon. All but the Settings, which
// Read makes, may be zero.
type Options struct {
	Settings
	Version string
	// Address and Port are where clients reach warden.
	Address string
	Port    int
	// Simulated says that no real model answers.
	Simulated bool
	Log       *slog.Logger // default: discard
}

// Tracer makes the spans of requests. Make one with New and call Run.
type Tracer struct {
	opts   Options
	queue  *queue
	tracer trace.Tracer
}

// New makes a Tracer; it reads the certificates, and connects to nothing yet.
func New(o Options) (*Tracer, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	up, err := newUpload(o.Settings)
	if err != nil {
		return nil, err
	}
	exporter, err := otlptrace.New(context.Background(), up)
	if err != nil {
		return nil, err
	}
	q := newQueue(o.Settings, exporter, o.Log)
	provider := sdk.NewTracerProvider(sdk.WithSampler(o.Sampler), sdk.WithResource(o.resource()), sdk.WithSpanProcessor(q))
	return &Tracer{opts: o, queue: q, tracer: provider.Tracer(scope,
		trace.WithInstrumentationVersion(o.Version), trace.WithSchemaURL(semconv.SchemaURL))}, nil
}

// resource says who sends the spans; the user's own attributes win.
func (o Options) resource() *resource.Resource {
	all := map[attribute.Key]attribute.KeyValue{}
	own := []attribute.KeyValue{
		semconv.ServiceName(o.Service), semconv.ServiceVersion(o.Version),
		// What the specification asks of every SDK.
		semconv.TelemetrySDKName("opentelemetry"), semconv.TelemetrySDKLanguageGo, semconv.TelemetrySDKVersion(otelsdk.Version()),
	}
	for _, a := range append(own, o.Resource...) {
		all[a.Key] = a
	}
	return resource.NewWithAttributes(semconv.SchemaURL, slices.Collect(maps.Values(all))...)
}

// Run sends spans until ctx ends, then what is left, within a bounded time.
func (t *Tracer) Run(ctx context.Context) error { return t.queue.run(ctx) }

// Dropped counts the spans that no collector took.
func (t *Tracer) Dropped() uint64 { return t.queue.dropped.Load() }

// Begin begins the span of a request: see router.Options.Trace.
func (t *Tracer) Begin(arrived time.Time, client record.TraceContext) (record.TraceContext, func(record.Record)) {
	ctx := w3c.Extract(context.Background(), propagation.MapCarrier{traceparent: client.Parent, tracestate: client.State})
	ctx, span := t.tracer.Start(ctx, "request", trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(arrived))
	out := propagation.MapCarrier{}
	w3c.Inject(ctx, out)
	return record.TraceContext{Parent: out[traceparent], State: out[tracestate]}, func(r record.Record) { t.end(span, r) }
}

// The headers of W3C Trace Context.
const (
	traceparent = "traceparent"
	tracestate  = "tracestate"
)

var w3c propagation.TraceContext
