package placement

import (
	"time"

	"github.com/lm-warden/warden/router/placement/ledger"
)

// ReplicaID names a replica, for example "r0".
type ReplicaID = ledger.ReplicaID

// Key names a conversation. The zero Key means that the client sent nothing
// that names one.
type Key = ledger.Key

// Classes of turns that placement treats apart. Any other class is a
// conversation like ClassMain.
const (
	ClassMain       = "main"
	ClassSubagent   = "subagent"
	ClassAuxiliary  = "auxiliary"
	ClassCompaction = "compaction"
)

// Turn is one request to place. The zero value of every field but ID is
// meaningful.
type Turn struct {
	// ID is chosen by the caller and unique among turns not yet ended.
	ID uint64
	// Key names the conversation; Parent the one that started it, if any.
	Key, Parent Key
	// Class is one of the Class constants. An auxiliary turn (a title, a
	// token count) makes no conversation.
	Class string
	// Root is a hash of system prompt and tools: turns with the same Root
	// share the beginning of their prompt.
	Root uint64
	// PromptTokens is the caller's estimate; the Placer corrects it by what
	// engines report. MaxOutput is the client's limit, 0 when not given.
	PromptTokens, MaxOutput int
	// Inherit is the replica that holds the history this conversation was
	// forked from: preferred on first sight, subject to the spill limit.
	Inherit ReplicaID
	// Pinned is the only replica that can serve this turn, because state
	// other than cache lives there; PinnedGeneration is its process start,
	// 0 when not known.
	Pinned           ReplicaID
	PinnedGeneration uint64
	// Fresh says that the history no longer extends what the conversation
	// sent before (compaction): the home's cache is worth nothing, so this
	// is a free moment to move.
	Fresh bool
	// APIKey separates users for fair waiting; empty when there is one user.
	APIKey string
	// Arrived is when the client's request came in; zero means now.
	Arrived time.Time
}

// Reason says why a turn went to its replica.
type Reason string

// The reasons. Sticky and Spill leave the home where it is; Failover and Rehome
// move it.
const (
	ReasonNew      Reason = "new"      // first sight of a conversation: least loaded
	ReasonSticky   Reason = "sticky"   // its home
	ReasonSpill    Reason = "spill"    // home is above the spill limit: this turn only
	ReasonFailover Reason = "failover" // home is gone, not accepting, or just failed this turn
	ReasonRehome   Reason = "rehome"   // its home was chosen while replicas were missing: seated again, once
	ReasonNoKey    Reason = "no_key"   // nothing names the conversation: least loaded
	ReasonInherit  Reason = "inherit"  // first sight of a fork: where its history is
	ReasonRoot     Reason = "root"     // first sight: where its system prompt is cached
	ReasonAux      Reason = "aux"      // auxiliary request: least loaded, no conversation
	ReasonPinned   Reason = "pinned"   // state lives on that replica only
	ReasonBalance  Reason = "balance"  // affinity is off: least loaded each time
	ReasonAdmitted Reason = "admitted" // waited until its conversation fitted a cache
	ReasonOverdue  Reason = "overdue"  // waited as long as anyone may: placed although nothing is free
)

// Why says what a turn waits for, or why it was refused.
type Why string

const (
	// WhyStarting: no replica accepts turns yet, or any more.
	WhyStarting Why = "starting"
	// WhyFull: every accepting replica holds as many turns as its engine
	// can run.
	WhyFull Why = "full"
	// WhyCache: the conversation does not fit a KV cache next to those that
	// are there (admission only).
	WhyCache Why = "cache"
	// WhyRetrying: every accepting replica has just failed this turn.
	WhyRetrying Why = "retrying"
	// WhyQueueFull: the queue is at its limit (refusal).
	WhyQueueFull Why = "queue_full"
	// WhyTimeout: waited Config.MaxWait (refusal).
	WhyTimeout Why = "timeout"
	// WhyFailed: failed on as many replicas as Config.MaxAttempts (refusal).
	WhyFailed Why = "failed"
	// WhyPinnedGone: the replica that holds the turn's state is gone or not
	// accepting (refusal).
	WhyPinnedGone Why = "pinned_gone"
)

// Outcome is how a turn ended, as far as the engine told.
type Outcome struct {
	// PromptTokens and OutputTokens as counted by the engine; 0 when it did
	// not say.
	PromptTokens, OutputTokens int
	// CachedTokens is the part of PromptTokens read from the prefix cache,
	// -1 when the engine did not measure it.
	CachedTokens int
	// FinishClass is tool_calls, stop or length; it tells how soon the
	// conversation is likely to come back.
	FinishClass string
	// Failed: the engine or its connection broke. Aborted: the client left.
	Failed, Aborted bool
}
