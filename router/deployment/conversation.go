package deployment

import (
	"github.com/lm-warden/warden/router/breaks"
	"github.com/lm-warden/warden/router/identity"
	"github.com/lm-warden/warden/router/placement"
	"github.com/lm-warden/warden/router/record"
)

// conversation is what placement has no use for and people want to see.
// It is guarded by its deployment's lock.
type conversation struct {
	key    identity.Key
	parent identity.Key
	client string
	class  identity.Class
	reason placement.Reason // of the latest turn
	// The process that holds its history: its home, or without one (affinity
	// off) where it was served last.
	home       ReplicaID
	generation uint64
	turns      int // placed

	open            []*Turn // waiting or placed, in the order of their arrival
	prefill, decode int     // turns placed, before and after their first token

	// Sums over measured turns.
	promptTokens, cachedTokens uint64
	// Of the latest turn that ended well, -1 where not measured.
	lastPrompt, lastCached int

	past breaks.Past
}

// placed notes one dispatch.
func (c *conversation) placed(a placement.Dispatch) {
	c.turns++
	c.reason = a.Reason
	if a.Home == "" || a.Home == a.Replica {
		c.home, c.generation = a.Replica, a.Generation
	}
	c.prefill++
}

// finished notes the end of one turn.
func (c *conversation) finished(rec *record.Record) {
	if rec.Ending() == identity.Done {
		c.lastPrompt, c.lastCached = rec.Usage.PromptTokens, rec.Usage.CachedTokens
	}
	if rec.Usage.CachedTokens >= 0 && rec.Usage.PromptTokens > 0 {
		c.promptTokens += uint64(rec.Usage.PromptTokens)
		c.cachedTokens += uint64(rec.Usage.CachedTokens)
	}
}

// state is what the conversation is doing now.
func (c *conversation) state(waiting int) string {
	switch {
	case c.decode > 0:
		return "decode"
	case c.prefill > 0:
		return "prefill"
	case waiting > 0:
		return "waiting"
	}
	return "idle"
}

// cachedShare is the part of its prompt tokens that came from a prefix cache,
// 0 to 1; negative when no turn was measured.
func (c *conversation) cachedShare() float64 {
	if c.promptTokens == 0 {
		return -1
	}
	return float64(c.cachedTokens) / float64(c.promptTokens)
}
