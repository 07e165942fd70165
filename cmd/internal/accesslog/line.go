package accesslog

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/lm-warden/warden/router/record"
)

// Line is one request. Absent figures were not measured or never happened.
type Line struct {
	// Time is the arrival of the request's headers.
	Time time.Time `json:"time"`
	// RequestID is the client's X-Request-Id, or one that warden made; the
	// answer, the engine and the span carry the same.
	RequestID string `json:"request_id"`
	// TraceID is the trace that the client named or warden began.
	TraceID string `json:"trace_id,omitempty"`
	// Key names the API key, where keys are asked for.
	Key string `json:"key,omitempty"`
	// Client is the program, where it was recognised.
	Client string `json:"client,omitempty"`
	// Class is what kind of request of its session it was.
	Class string `json:"class,omitempty"`
	// Session is the hash that stands for the conversation, within the model
	// and the API key; absent for requests that belong to none.
	Session string `json:"session,omitempty"`
	// Path is the request's, without the query.
	Path string `json:"path"`
	// Model is the alias of the model asked for.
	Model string `json:"model,omitempty"`
	// Stream says that the answer was asked for as a stream.
	Stream bool `json:"stream,omitempty"`
	// Replica is the one that answered, or was tried last.
	Replica string `json:"replica,omitempty"`
	// Reason is why that one.
	Reason string `json:"reason,omitempty"`
	// Status is the HTTP status sent, 0 for none.
	Status int `json:"status"`
	// Outcome is complete, cut (broke off after its first byte), cancelled
	// (the client left) or refused (the client got an error).
	Outcome record.Result `json:"outcome"`
	// Cause says in a word why a request was refused: an error's code, its
	// status, or engine, when the engine refused it itself.
	Cause string `json:"cause,omitempty"`
	// Finish is why the model stopped: stop, tool_calls or length.
	Finish string `json:"finish,omitempty"`
	// BytesIn is the size of the request's body.
	BytesIn int64 `json:"bytes_in"`
	// BytesOut is what was sent of the answer's body.
	BytesOut int64 `json:"bytes_out"`
	// PromptTokens is the length of the prompt as the engine measured it.
	PromptTokens *int `json:"prompt_tokens,omitempty"`
	// CachedTokens are those of them that came from the prefix cache.
	CachedTokens *int `json:"cached_tokens,omitempty"`
	// OutputTokens is the length of the answer as the engine measured it.
	OutputTokens *int `json:"output_tokens,omitempty"`
	// PromptTokensEstimated is a guess from the length of the text, made before
	// an engine has seen it.
	PromptTokensEstimated *int `json:"prompt_tokens_estimated,omitempty"`
	// WaitSeconds is the time spent waiting for a place on a replica.
	WaitSeconds float64 `json:"wait_seconds"`
	// TTFBSeconds runs from the arrival to the first byte of the answer.
	TTFBSeconds *float64 `json:"ttfb_seconds,omitempty"`
	// TTFTSeconds runs from the arrival to the first token of a streamed answer.
	TTFTSeconds *float64 `json:"ttft_seconds,omitempty"`
	// DurationSeconds runs from the arrival to the end.
	DurationSeconds float64 `json:"duration_seconds"`
	// Retries counts the replicas that failed before one answered.
	Retries int `json:"retries"`
	// Simulated says that no real model answered.
	Simulated bool `json:"simulated,omitempty"`
}

// maxPath bounds what is kept of a path: those that an engine answers are
// short, the others are whatever a stranger sent.
const maxPath = 256

// LineOf is the line of a finished request.
func LineOf(r record.Record, simulated bool) Line {
	firstToken := r.FirstToken
	if !r.Stream {
		firstToken = time.Time{} // all tokens came at once, with the end
	}
	return Line{
		Time: r.Arrived.UTC(), RequestID: r.RequestID, TraceID: r.Trace.TraceID(),
		Key: r.KeyID, Client: r.Client, Class: r.Class, Session: r.Session,
		Path: r.Path[:min(len(r.Path), maxPath)], Model: r.Model, Stream: r.Stream,
		Replica: string(r.Replica), Reason: string(r.Reason),
		Status: r.Status, Outcome: r.Result(), Cause: r.Cause, Finish: r.Finish,
		BytesIn: r.BytesIn, BytesOut: r.BytesOut,
		PromptTokens: measured(r.Usage.PromptTokens), CachedTokens: measured(r.Usage.CachedTokens),
		OutputTokens: measured(r.Usage.OutputTokens), PromptTokensEstimated: measured(r.Estimate),
		WaitSeconds: seconds(r.Waited), TTFBSeconds: happened(r, r.FirstByte), TTFTSeconds: happened(r, firstToken),
		DurationSeconds: seconds(r.Since(r.Ended)), Retries: r.Retries(), Simulated: simulated,
	}
}

func measured(n int) *int {
	if n < 0 {
		return nil
	}
	return &n
}

func happened(r record.Record, at time.Time) *float64 {
	if at.IsZero() {
		return nil
	}
	s := seconds(r.Since(at))
	return &s
}

// seconds are whole microseconds: what lies below is noise.
func seconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1e6 }

// appendTo appends l and a line end to b.
func (l Line) appendTo(b []byte) []byte {
	text, err := json.Marshal(l)
	if err != nil {
		panic(fmt.Sprintf("accesslog: a struct of strings and finite numbers always marshals: %v", err))
	}
	return append(append(b, text...), '\n')
}
