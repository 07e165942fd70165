// Package breaks notices prefixes that stop matching: turns for which an
// engine found far less in its prefix cache than the conversation's history
// allows, on the very process that has read it before. Such a turn costs a
// whole prefill, and every turn after it may; nobody sees it but as slowness.
//
// Read Watch.Ended: what is compared (turn.go), what counts as a break, and
// how often it is said. Everything is a pure function of the turns and times
// given; the owner serialises.
//
// # What counts
//
// A turn breaks when fewer than half of the tokens that the history allows
// came from the cache, and at least 1,024 did not. The history allows the
// prompt of the conversation's turn before, as the engine counted it: a turn
// that only appends finds all of it. Less is a break only where nothing was
// evicted as far as placement's belief says (Turn.Believed), so an overloaded
// replica is no break. A cause that can be seen in the request counts at once;
// one that cannot (the chat template, the engine) has to repeat itself on the
// conversation's next turn, because belief can be wrong once.
//
// # How often it is said
//
// Once per conversation. And when a second conversation of the same client
// breaks for the same reason, that is said of the client as a whole, once; the
// further ones are counted and shown, until no new one has come for an hour.
package breaks

import (
	"fmt"
	"time"

	"github.com/lm-warden/warden/router/identity"
)

const (
	// minLost is the least loss worth a word: a quarter of a second of prefill
	// on a small GPU (4,000 tokens per second), and eight times the largest
	// usual cache block (128 tokens), so that rounding is never a break.
	minLost = 1024
	// maxFound is the part of the allowed tokens at which too few were found.
	// Blocks, templates and the last answer cost a few percent of a prompt.
	maxFound = 0.5
	// quiet is how long a client must have no new break of one cause until the
	// next one is said again.
	quiet = time.Hour
)

// Found is a break.
type Found struct {
	identity.Break
	At      time.Time
	Replica string
	// Allowed tokens by history, and those found in the cache.
	Allowed, Cached int
}

// Say is what there is to tell about a break.
type Say uint8

const (
	// Nothing to tell: no break, or one that is known.
	Nothing Say = iota
	// Counted: another conversation of a client that was told of.
	Counted
	// Conversation: the break of one conversation.
	Conversation
	// Client: conversations of this client break one after the other.
	Client
)

// Watch knows what has been told. The zero value is ready.
type Watch struct {
	told map[pattern]*told // bounded: clients and causes are from fixed lists
}

type pattern struct {
	client string
	cause  identity.Cause
}

type told struct {
	conversations int
	latest        time.Time
}

// Ended looks at a turn that has ended and notes it in its conversation's
// past. The break is nil when there is none, or the conversation's was found
// before.
func (w *Watch) Ended(p *Past, t Turn, now time.Time) (*Found, Say) {
	f := p.compare(t, now)
	p.note(t)
	if f == nil || p.Found != nil {
		return nil, Nothing
	}
	p.Found = f
	return f, w.say(pattern{t.Client, f.Cause}, now)
}

func (w *Watch) say(p pattern, now time.Time) Say {
	if w.told == nil {
		w.told = map[pattern]*told{}
	}
	s := w.told[p]
	if s == nil || now.Sub(s.latest) >= quiet {
		s = &told{}
		w.told[p] = s
	}
	s.conversations++
	s.latest = now
	switch s.conversations {
	case 1:
		return Conversation
	case 2:
		return Client
	}
	return Counted
}

// Sentence is f in words, for subject: a conversation or a client.
func (f *Found) Sentence(subject string) string {
	return fmt.Sprintf("%s found %d of %d tokens of its history cached: %s; %s", subject, f.Cached, f.Allowed, f.Text, f.Fix)
}
