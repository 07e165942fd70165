package tracing

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/lm-warden/warden/router/record"
)

// Attributes of our own.
const (
	keyRequestID = attribute.Key("warden.request_id")
	keySession   = attribute.Key("warden.session") // a hash, never what a client sent
	keyClient    = attribute.Key("warden.client")
	keyKey       = attribute.Key("warden.api_key.name")
	keyReplica   = attribute.Key("warden.replica")
	keyReason    = attribute.Key("warden.reason")
	keyRetries   = attribute.Key("warden.retries")
	keyWait      = attribute.Key("warden.wait_seconds")
	keyOutcome   = attribute.Key("warden.outcome")
	keySimulated = attribute.Key("warden.simulated")
)

// Events of a span.
const (
	eventPlaced     = "placed" // its wait is over, for the first time if there were retries
	eventFirstByte  = "first_byte"
	eventFirstToken = "first_token" // of a stream
)

// maxText bounds what a client sent: the name of a model, a path.
const maxText = 256

// end says what became of the request and ends its span.
func (t *Tracer) end(span trace.Span, r record.Record) {
	defer span.End(trace.WithTimestamp(r.Ended))
	if !span.IsRecording() {
		return
	}
	span.SetName(nameOf(r))
	span.SetAttributes(append(attributesOf(r), t.server()...)...)
	if !r.Placed.IsZero() {
		span.AddEvent(eventPlaced, trace.WithTimestamp(r.Placed))
	}
	if !r.FirstByte.IsZero() {
		span.AddEvent(eventFirstByte, trace.WithTimestamp(r.FirstByte))
	}
	if r.Stream && !r.FirstToken.IsZero() { // it may be read a moment before the bytes that hold it are passed on
		span.AddEvent(eventFirstToken, trace.WithTimestamp(later(r.FirstToken, r.FirstByte)))
	}
	// A server's span is an error when the server failed, not when its client
	// asked for what cannot be had (HTTP conventions).
	if r.Status >= 500 || r.Result() == record.Cut {
		span.SetStatus(codes.Error, cmp.Or(r.Cause, string(r.Result())))
	}
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// server are the attributes that all spans have alike.
func (t *Tracer) server() []attribute.KeyValue {
	attrs := []attribute.KeyValue{semconv.GenAIProviderNameKey.String("vllm")}
	if t.opts.Simulated {
		attrs = []attribute.KeyValue{semconv.GenAIProviderNameKey.String("simulated"), keySimulated.Bool(true)}
	}
	if t.opts.Address != "" {
		attrs = append(attrs, semconv.ServerAddress(t.opts.Address), semconv.ServerPort(t.opts.Port))
	}
	return attrs
}

// operations are the GenAI conventions' names of what a path does.
var operations = map[string]attribute.KeyValue{
	"/v1/chat/completions": semconv.GenAIOperationNameChat,
	"/v1/messages":         semconv.GenAIOperationNameChat,
	"/v1/responses":        semconv.GenAIOperationNameChat,
	"/v1/completions":      semconv.GenAIOperationNameTextCompletion,
	"/v1/embeddings":       semconv.GenAIOperationNameEmbeddings,
}

// nameOf is the span's name: "chat qwen3-4b". The model is the served one, a
// name of the configuration, so that names stay few.
func nameOf(r record.Record) string {
	operation, ok := operations[r.Path]
	switch {
	case !ok:
		return "POST " + cut(r.Path)
	case r.Model == "":
		return operation.Value.AsString()
	}
	return operation.Value.AsString() + " " + r.Model
}

// attributesOf are what one request was.
func attributesOf(r record.Record) []attribute.KeyValue {
	attrs := []attribute.KeyValue{
		semconv.HTTPRequestMethodPost, semconv.URLPath(cut(r.Path)), semconv.HTTPRequestBodySize(int(r.BytesIn)),
		keyRequestID.String(r.RequestID), keyOutcome.String(string(r.Result())), keyRetries.Int(r.Retries()),
		keyWait.Float64(r.Waited.Seconds()),
	}
	if operation, ok := operations[r.Path]; ok {
		attrs = append(attrs, operation, semconv.GenAIRequestStream(r.Stream))
	}
	text := func(key attribute.Key, value string) {
		if value != "" {
			attrs = append(attrs, key.String(value))
		}
	}
	text(semconv.GenAIRequestModelKey, cut(cmp.Or(r.Asked, r.Model)))
	text(semconv.GenAIConversationIDKey, r.Session)
	text(keySession, r.Session)
	text(keyClient, r.Client)
	text(keyKey, r.KeyID)
	text(keyReplica, string(r.Replica))
	text(keyReason, string(r.Reason))
	text(semconv.ErrorTypeKey, errorType(r))
	if r.Status > 0 {
		attrs = append(attrs, semconv.HTTPResponseStatusCode(r.Status), semconv.HTTPResponseBodySize(int(r.BytesOut)))
	}
	return append(attrs, answerOf(r)...)
}

// answerOf are what an answer said of itself.
func answerOf(r record.Record) (attrs []attribute.KeyValue) {
	if r.Status > 0 && r.Status < 400 {
		attrs = append(attrs, semconv.GenAIResponseModel(r.Model))
	}
	if r.Finish != "" {
		attrs = append(attrs, semconv.GenAIResponseFinishReasons(r.Finish))
	}
	if r.Stream && !r.FirstToken.IsZero() {
		attrs = append(attrs, semconv.GenAIResponseTimeToFirstChunk(r.Since(r.FirstToken).Seconds()))
	}
	tokens := func(key attribute.Key, n int) {
		if n >= 0 {
			attrs = append(attrs, key.Int(n))
		}
	}
	tokens(semconv.GenAIUsageInputTokensKey, r.Usage.PromptTokens)
	tokens(semconv.GenAIUsageCacheReadInputTokensKey, r.Usage.CachedTokens)
	tokens(semconv.GenAIUsageOutputTokensKey, r.Usage.OutputTokens)
	return attrs
}

// errorType is why a request did not end well, "" when it did: a word, or the
// status where the engine gave none.
func errorType(r record.Record) string {
	switch r.Result() {
	case record.Complete:
		return ""
	case record.Refused:
		if r.Cause == record.CauseEngine {
			return strconv.Itoa(r.Status)
		}
		return r.Cause
	}
	return string(r.Result())
}

// cut is a text of whole letters: the encoding refuses a whole batch of spans
// for one that is no UTF-8.
func cut(s string) string { return strings.ToValidUTF8(s[:min(len(s), maxText)], "\ufffd") }
