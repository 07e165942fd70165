// Package tracing tells an OpenTelemetry collector of every request: one span
// each, sent with OTLP over HTTP. A collector that is slow, full or gone costs
// the data path nothing: spans wait in a queue of fixed size, and what does not
// fit is dropped and counted.
//
// Reading order:
//
//	settings.go  where spans go: the configuration, then the standard OTEL_* variables
//	tracer.go    Tracer: a span begins with its request and ends with its record
//	span.go      what a span says, in the words of the GenAI conventions
//	queue.go     the bounded queue, batches, and what becomes of failed ones
//	upload.go    one batch to the collector
//
// # One span
//
// A span covers a request from its headers to its last byte; its events say
// when it was placed, when its first byte and its first token came. It
// continues the trace that the client names in traceparent, and the engine gets
// the span as its parent: with vLLM's --otlp-traces-endpoint the engine's own
// spans hang below it. vLLM speaks gRPC there unless its environment says
// OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf; engines do not inherit
// warden's environment, so that this belongs into the model's env.
//
// # Why not the exporter that comes with OpenTelemetry
//
// Its HTTP exporter brings gRPC with it: 9 MB in a program of 25. upload.go does
// what the specification asks of an exporter in two hundred lines; the SDK and
// the translation into OTLP are OpenTelemetry's.
package tracing
