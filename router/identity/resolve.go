package identity

// Kind says how a request relates to the conversations seen before.
type Kind string

const (
	// KindNone: the request belongs to no conversation.
	KindNone Kind = "none"
	// KindNew: a conversation seen for the first time.
	KindNew Kind = "new"
	// KindSame: the next turn of a known conversation.
	KindSame Kind = "same"
	// KindRetry: the latest request of a known conversation once more.
	KindRetry Kind = "retry"
	// KindFork: a new conversation that goes on from the history of another one.
	KindFork Kind = "fork"
	// KindRewind: an earlier turn of a history, continued differently. With an
	// id it is the same conversation, without one a new one.
	KindRewind Kind = "rewind"
	// KindSibling: a new conversation with the same prompt as another one, as
	// when an agent starts several sub-agents on one task.
	KindSibling Kind = "sibling"
	// KindCompaction: a known conversation whose history was replaced; what an
	// engine has kept of it is worth no more than its root.
	KindCompaction Kind = "compaction"
)

// Resolution is the answer of Index.Resolve.
type Resolution struct {
	// Key names the conversation; zero for KindNone.
	Key  Key
	Kind Kind
	// From is another conversation whose history this request repeats, and whose
	// replica is therefore warm for it; zero when there is none.
	From Key
	// Busy: an earlier request of the conversation is still in flight. With
	// KindRetry that is the very same request.
	Busy bool
	// Change compares the request with the conversation's latest one.
	Change Change

	// sharedTurns are in common with From or, when that is zero, with the
	// conversation's own latest request.
	sharedTurns int

	number, attempt uint32
}

// decide is Resolve without its effects.
func (x *Index) decide(id *Identity) Resolution {
	r := Resolution{Key: id.Key, Kind: KindNew}
	switch {
	case id.Key.IsZero():
		x.byContent(id, &r)
	case x.byKey[id.Key] != nil:
		x.known(x.byKey[id.Key], id, &r)
	default:
		x.unknown(id, &r)
	}
	return r
}

// known decides for a conversation that the client names.
func (x *Index) known(c *conversation, id *Identity, r *Resolution) {
	r.Kind = KindSame
	if len(id.chain) == 0 || c.shape == nil {
		return
	}
	shared := c.shared(id)
	r.sharedTurns = shared
	r.Change = x.compare(c, id, shared)
	switch n := len(id.chain); {
	case shared == c.turns() && n == shared:
		r.Kind = KindRetry
	case shared == c.turns():
	case id.compacted, id.window != c.window, shared == 0 && n < c.turns():
		r.Kind = KindCompaction
	case id.holdsUserTurn(shared):
		r.Kind = KindRewind
	}
	// What is left was edited near its beginning. It stays where it is: only the
	// client's id says that it is the same conversation.
}

// unknown decides for an id seen for the first time.
func (x *Index) unknown(id *Identity, r *Resolution) {
	m := x.longest(id)
	switch {
	case m.turns == len(id.chain) && m.turns > 0:
		r.Kind = KindSibling
	case x.inherits(id, m, r):
		r.Kind = KindFork
	}
}

// byContent decides for a request without an id.
func (x *Index) byContent(id *Identity, r *Resolution) {
	m := x.longest(id)
	full := m.turns == len(id.chain)
	if c := x.continued(m, full); c != nil {
		r.Key, r.Kind = c.key, KindSame
		if full {
			r.Kind = KindRetry
		}
		r.sharedTurns = m.turns
		r.Change = x.compare(c, id, m.turns)
		return
	}
	if c := x.byKey[id.hint]; c != nil {
		r.Key = c.key
		x.known(c, id, r)
		return
	}
	atHead := m.owner != nil && m.owner.last() == m.value || len(x.heads[m.value]) > 0
	switch {
	case full && atHead:
		r.Kind = KindSibling
	case x.inherits(id, m, r):
		r.Kind = KindRewind
		if atHead {
			r.Kind = KindFork
		}
	}
	r.Key = x.mint(id)
}

// prefix is the longest part of a request's history that is known.
type prefix struct {
	turns   int    // 0: nothing is known
	value   uint64 // hash of it
	owner   *conversation
	through int // conversations that went through it
}

// maxLookups bounds the work for a long history of which nothing is known.
const maxLookups = 4096

func (x *Index) longest(id *Identity) prefix {
	oldest := max(0, len(id.chain)-maxLookups)
	for i := len(id.chain) - 1; i >= oldest; i-- {
		v := id.value(i)
		if ref, ok := x.turns[v]; ok {
			return prefix{i + 1, v, x.byNum[ref.conversation], int(ref.through)}
		}
	}
	return prefix{}
}

// continued finds the idle conversation that a request with this prefix goes
// on, or repeats (full) after it ended badly.
func (x *Index) continued(m prefix, full bool) *conversation {
	for _, number := range x.heads[m.value] {
		c := x.byNum[number]
		if !full || c.failed && c.last() == m.value {
			return c
		}
	}
	return nil
}

// A preamble is a beginning that many conversations have in common. Treating
// it as history would chain all of them to one replica, as when an agent starts
// several sub-agents at once.
//
// What nobody has answered yet is always one: Codex describes the working
// directory in the first user turn of all its threads. Worked examples hold
// answers. Short ones cost little to read again (2k tokens); long ones count
// as history until clearly too many go through them to be forks.
const (
	preambleChars    = 8 << 10
	preambleThrough  = 3
	longPreambleFrom = 16
)

func (id *Identity) preamble(m prefix) bool {
	if id.outline.answered < 0 || m.turns <= id.outline.answered {
		return true
	}
	chars := id.outline.ends[m.turns-1] - id.outline.rootChars
	return m.through >= preambleThrough && (chars < preambleChars || m.through >= longPreambleFrom)
}

// inherits reports whether the prefix makes another conversation's replica
// warm for this request, and notes it in r.
func (x *Index) inherits(id *Identity, m prefix, r *Resolution) bool {
	if m.owner == nil || id.preamble(m) {
		return false
	}
	r.From = m.owner.key
	r.sharedTurns = m.turns
	return true
}

func (id *Identity) holdsUserTurn(turns int) bool {
	return id.outline.firstUser >= 0 && turns > id.outline.firstUser
}
