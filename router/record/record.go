// Package record is what is known of one request once it has ended, and what
// that says to those who learn from it. It holds sizes, times and names, never
// content.
package record

import (
	"time"

	"github.com/lm-warden/warden/router/dialect"
	"github.com/lm-warden/warden/router/identity"
	"github.com/lm-warden/warden/router/placement"
)

// Record is one request, for access logs and traces. One that was refused
// before its model was known has no more than an id, a path, times, a status
// and a cause.
type Record struct {
	RequestID, Path, Model string
	Asked                  string       // the model as the client named it
	Trace                  TraceContext // as the engine gets it
	Stream                 bool
	// Session is the conversation's key in hex, "" for none.
	Session, Client, Class, KeyID string

	Replica    placement.ReplicaID
	Generation uint64
	Reason     placement.Reason
	Attempts   int

	Arrived, Placed, FirstByte, FirstToken, Ended time.Time     // zero: never happened
	Waited                                        time.Duration // for a place, over all attempts

	Status            int    // as sent to the client, 0 when nothing was
	Cause             string // of a refusal, one word
	BytesIn, BytesOut int64
	Usage             dialect.Usage // -1 where not measured
	Estimate          int           // of its prompt tokens, from the length of its text; -1 before it asked for a place
	Finish            string
	Aborted, Failed   bool // the client left; the answer could not be completed
	Stalled           bool // Aborted, because the client was there and did not read

	// Stored names what the engine keeps for later requests: a response, a
	// conversation.
	Stored []string
}

// New is the record of a request that has just come.
func New(id, path string, arrived time.Time) Record {
	return Record{RequestID: id, Path: path, Arrived: arrived, Estimate: -1,
		Usage: dialect.Usage{PromptTokens: -1, CachedTokens: -1, OutputTokens: -1}}
}

// Measured takes over what the answer said about itself.
func (r *Record) Measured(s dialect.Summary) {
	r.Usage, r.Finish = s.Usage, s.Finish
	for _, id := range []string{s.ResponseID, s.ConversationID} {
		if id != "" {
			r.Stored = append(r.Stored, id)
		}
	}
}

// Ending is how the request ended for its conversation.
func (r *Record) Ending() identity.Ending {
	switch {
	case r.Aborted:
		return identity.Aborted
	case r.Failed || r.Status >= 400:
		return identity.Failed
	}
	return identity.Done
}

// Outcome is what placement learns from it.
func (r *Record) Outcome() placement.Outcome {
	return placement.Outcome{
		PromptTokens: max(r.Usage.PromptTokens, 0),
		OutputTokens: max(r.Usage.OutputTokens, 0),
		CachedTokens: r.Usage.CachedTokens,
		FinishClass:  r.Finish,
		// A refused request has left no trace in the engine.
		Failed:  r.Failed || r.Status >= 400,
		Aborted: r.Aborted,
	}
}
