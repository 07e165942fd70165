package breaks

import (
	"time"

	"github.com/lm-warden/warden/router/identity"
)

// Turn is one turn that has ended.
type Turn struct {
	Client string
	// Same says how it relates to its conversation's turn before, Turns how
	// many turns its own request holds.
	Same  identity.Resolution
	Turns int
	// Folded: warden rewrote its system turns, so the engine saw none.
	Folded bool

	Replica    string
	Generation uint64
	// Believed tokens of its prompt that placement took for cached on that
	// replica when it sent the turn there. Bounded: the size of the cache is
	// known, so that the belief takes account of eviction.
	Believed int
	Bounded  bool

	// Good: it was answered in full. Prompt and Cached tokens are the
	// engine's, -1 where it did not measure.
	Good           bool
	Prompt, Cached int
}

// Past is what is remembered of a conversation. The zero value is one without
// turns.
type Past struct {
	// Found is its first break, nil while there is none.
	Found *Found

	// The process that read the latest turn, and that turn's prompt; 0 tokens
	// when there is nothing to compare with.
	replica    string
	generation uint64
	prompt     int
	unseen     int // breaks in a row for reasons that no request shows
}

func (p *Past) note(t Turn) {
	p.replica, p.generation, p.prompt = t.Replica, t.Generation, 0
	if t.Good {
		p.prompt = max(t.Prompt, 0)
	}
}

// compare finds a break between the turn before and this one.
func (p *Past) compare(t Turn, now time.Time) *Found {
	if !p.comparable(t) {
		return nil
	}
	change := t.Same.Change
	if t.Folded {
		change.SystemTurns = 0
	}
	reason := change.Explain(t.Client)
	allowed := min(p.prompt, t.Prompt)
	if beginning(reason.Cause) {
		// All of the history is lost, whatever of its end was evicted before:
		// it is enough that some of it was still there to be found.
		if t.Believed == 0 {
			return nil
		}
	} else if allowed = min(allowed, t.Believed); !t.Bounded {
		return nil
	}
	if allowed-t.Cached < minLost || float64(t.Cached) >= maxFound*float64(allowed) {
		p.unseen = 0
		return nil
	}
	switch reason.Cause {
	case identity.CauseCompaction:
		return nil // it was meant, and the next turn is warm again
	case identity.CauseReasoning, identity.CauseEngine:
		if p.unseen++; p.unseen < 2 {
			return nil
		}
	}
	return &Found{Break: reason, At: now, Replica: t.Replica, Allowed: allowed, Cached: t.Cached}
}

// comparable reports whether the turn goes on from the one before, on the same
// process, and both were measured.
func (p *Past) comparable(t Turn) bool {
	same, change := t.Same, t.Same.Change
	switch {
	case !t.Good || t.Cached < 0 || t.Prompt <= 0 || p.prompt == 0:
		return false
	case p.replica != t.Replica || p.generation != t.Generation:
		return false
	case same.Kind != identity.KindSame && same.Kind != identity.KindRewind, same.Busy, !change.Known:
		return false
	}
	// A history that was cut and did not grow is somebody going back a few
	// turns; one that goes on growing is being edited.
	return change.Shared == change.Turns || t.Turns > change.Turns
}

// beginning reports whether a cause lies before the first turn of the prompt.
func beginning(c identity.Cause) bool {
	switch c {
	case identity.CauseSystemNumbers, identity.CauseSystemPaths, identity.CauseSystemText, identity.CauseTools:
		return true
	}
	return false
}
