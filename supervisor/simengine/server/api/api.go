package api

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/lm-warden/warden/supervisor/simengine/prompt"
	"github.com/lm-warden/warden/supervisor/simengine/server/wire"
)

// Request is the body of an API that generates.
type Request interface {
	// Job is what the body asks for.
	Job(Settings) (Job, *wire.Error)
	// Reply makes what the answer is written with.
	Reply(Head) Reply
}

// Job is what a request asks for.
type Job struct {
	// Tasks are worked off one after the other. All APIs have one, but a
	// completion may have several prompts.
	Tasks []Task
	// Stream is only possible with one task.
	Stream bool
	// Prefix begins the reply's id.
	Prefix string
}

// Head is what a reply says of itself.
type Head struct {
	Settings
	ID string
	// Received and Created are Unix times in seconds: when the request came,
	// and when the engine took it. vLLM dates completions with the first, the
	// other APIs with the second.
	Received, Created int64
}

// Reply is one answer in the shapes of its API.
type Reply interface {
	// Whole is the body of an answer that is not streamed; there is one Answer
	// for each task.
	Whole([]*Answer) any
	// Stream is the answer as events. It is called before the first token.
	Stream(*wire.Events, *Answer) Stream
}

// Stream sends an answer as it grows. Its methods are called in the order in
// which they stand here, Finish or Fail as the last. An error ends the stream;
// if it is a *wire.Error, Fail tells the client.
type Stream interface {
	// Open comes with the headers, before any token.
	Open() error
	// Begin comes with the first token.
	Begin() error
	// Token is one more token of a choice; the pieces are what became visible
	// with it, if anything did.
	Token(choice int, pieces []prompt.Piece) error
	// Finish comes when the answer is complete.
	Finish() error
	// Fail ends the stream of an answer that will not be complete.
	Fail(*wire.Error)
}

// Query is the body of an API that needs no engine.
type Query interface {
	// Result is the body of the reply.
	Result(Settings) (any, *wire.Error)
}

// StableID is an id that does not change while a request lasts: the parts of
// its reply must agree on it.
func StableID(request string, numbers ...int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%v", request, numbers))
	return hex.EncodeToString(sum[:16])
}

// CallID names a tool call of a choice.
func (h Head) CallID(choice, call int) string {
	return "chatcmpl-tool-" + StableID(h.ID, choice, call)
}
