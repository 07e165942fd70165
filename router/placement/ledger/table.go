package ledger

import (
	"iter"
	"time"

	"github.com/lm-warden/warden/router/placement/list"
	"github.com/lm-warden/warden/router/placement/shadow"
)

// Table is the bounded set of known conversations. Two lists ordered by last
// sight hold them: active ones count as load when a home is chosen, dormant
// ones only remember their home. Both expire from their old end, so each step
// pays only for those that have just grown old.
type Table struct {
	byKey   map[Key]*Session
	roots   map[uint64]*Root
	active  list.List[*Session]
	dormant list.List[*Session]
}

// NewTable returns an empty table.
func NewTable() *Table {
	return &Table{byKey: map[Key]*Session{}, roots: map[uint64]*Root{}}
}

// Len is how many conversations are known.
func (t *Table) Len() int { return len(t.byKey) }

// Get returns the conversation k, nil when it is not known.
func (t *Table) Get(k Key) *Session {
	if k.IsZero() {
		return nil
	}
	return t.byKey[k]
}

// Active yields the active conversations, seen latest first.
func (t *Table) Active() iter.Seq[*Session] {
	return func(yield func(*Session) bool) {
		for at := t.active.Front(); at != nil && yield(at.Value); at = at.Next() {
		}
	}
}

// Latest yields all conversations, seen latest first.
func (t *Table) Latest() iter.Seq[*Session] {
	return func(yield func(*Session) bool) {
		for _, l := range []*list.List[*Session]{&t.active, &t.dormant} {
			for at := l.Front(); at != nil; at = at.Next() {
				if !yield(at.Value) {
					return
				}
			}
		}
	}
}

// Add creates the conversation k. The caller has made room.
func (t *Table) Add(k Key, now time.Time) *Session {
	s := &Session{key: k, lastSeen: now, active: true}
	s.place.Value = s
	t.byKey[k] = s
	t.active.PushFront(&s.place)
	return s
}

// Touch makes s the most recently seen.
func (t *Table) Touch(s *Session, now time.Time) {
	t.unlink(s)
	s.leaveAccounts()
	s.active, s.lastSeen = true, now
	s.joinAccounts()
	t.active.PushFront(&s.place)
}

func (t *Table) unlink(s *Session) {
	if s.active {
		t.active.Remove(&s.place)
	} else {
		t.dormant.Remove(&s.place)
	}
}

// drop forgets s.
func (t *Table) drop(s *Session) {
	t.unlink(s)
	s.leaveAccounts()
	s.home, s.served = nil, nil
	if r := s.resident; r != nil {
		r.Release(s)
	}
	s.dropHoldings()
	t.leaveRoot(s)
	delete(t.byKey, s.key)
}

// Expire moves what has been idle for window to the dormant list and forgets
// what has been idle for ttl. It returns how many were forgotten.
func (t *Table) Expire(now time.Time, window, ttl time.Duration) int {
	for at := t.active.Back(); at != nil && now.Sub(at.Value.lastSeen) > window; at = t.active.Back() {
		s := at.Value
		if s.Busy() {
			t.Touch(s, now)
			continue
		}
		t.active.Remove(at)
		s.leaveAccounts()
		s.active = false
		s.joinAccounts()
		t.dormant.PushFront(at)
	}
	n := 0
	for at := t.dormant.Back(); at != nil && now.Sub(at.Value.lastSeen) > ttl; at = t.dormant.Back() {
		t.drop(at.Value)
		n++
	}
	return n
}

// Evict makes the table smaller than limit by forgetting the least recently
// seen conversations that are not busy. It looks at a few busy ones at most:
// there are never more of those than turns in flight and waiting.
func (t *Table) Evict(limit int) int {
	n := 0
	for len(t.byKey) >= limit {
		s := t.oldestIdle()
		if s == nil {
			break
		}
		t.drop(s)
		n++
	}
	return n
}

func (t *Table) oldestIdle() *Session {
	if at := t.dormant.Back(); at != nil {
		return at.Value
	}
	for at := t.active.Back(); at != nil; at = at.Prev() {
		if !at.Value.Busy() {
			return at.Value
		}
	}
	return nil
}

// Root returns the shared prefix with that hash, nil when nobody uses it.
func (t *Table) Root(hash uint64) *Root { return t.roots[hash] }

// Use points s at the root with that hash, creating it at need. A conversation
// whose client stops naming its root keeps the one it had.
func (t *Table) Use(s *Session, hash uint64) {
	if s.root != nil && (hash == 0 || s.root.hash == hash) {
		return
	}
	r := t.roots[hash]
	if r == nil {
		r = newRoot(hash)
		t.roots[hash] = r
	}
	t.leaveRoot(s)
	s.leaveAccounts()
	s.root = r
	s.joinAccounts()
	r.users++
}

// PinRoot notes that a running request uses r in the cache of on, until
// UnpinRoot. A request of no conversation may have waited so long that r was
// forgotten, and perhaps begun anew by others: the root returned is the one that
// counts now.
func (t *Table) PinRoot(r *Root, on *Replica) (*Root, *shadow.Holding) {
	if r.users == 0 {
		if again := t.roots[r.hash]; again != nil {
			r = again
		}
		t.roots[r.hash] = r
	}
	return r, r.pin(on)
}

// UnpinRoot ends one request's use h of r.
func (t *Table) UnpinRoot(r *Root, h *shadow.Holding) {
	h.Unpin(r.tokens)
	t.letGo(r)
}

// leaveRoot takes s from its root.
func (t *Table) leaveRoot(s *Session) {
	if r := s.root; r != nil {
		s.root = nil
		t.letGo(r)
	}
}

// letGo ends one use of r; with the last one r is forgotten.
func (t *Table) letGo(r *Root) {
	if r.users--; r.users > 0 {
		return
	}
	for _, h := range r.holdings {
		h.Drop()
	}
	delete(t.roots, r.hash)
}
