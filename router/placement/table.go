package placement

import "time"

// table is the bounded set of known conversations. Two lists ordered by last
// sight hold them: active ones count as load when a home is chosen, dormant
// ones only remember their home. Both expire from their old end, so each step
// pays only for those that have just grown old.
type table struct {
	byKey   map[Key]*session
	roots   map[uint64]*root
	active  sessionList
	dormant sessionList
}

func newTable() *table {
	return &table{byKey: map[Key]*session{}, roots: map[uint64]*root{}}
}

func (t *table) len() int { return len(t.byKey) }

func (t *table) get(k Key) *session {
	if k.IsZero() {
		return nil
	}
	return t.byKey[k]
}

// add creates the conversation k. The caller has made room.
func (t *table) add(k Key, now time.Time) *session {
	s := &session{key: k, lastSeen: now, active: true}
	t.byKey[k] = s
	t.active.pushFront(s)
	return s
}

// touch makes s the most recently seen.
func (t *table) touch(s *session, now time.Time) {
	t.unlink(s)
	s.leaveLedger()
	s.active, s.lastSeen = true, now
	s.joinLedger()
	t.active.pushFront(s)
}

func (t *table) unlink(s *session) {
	if s.active {
		t.active.remove(s)
	} else {
		t.dormant.remove(s)
	}
}

// drop forgets s.
func (t *table) drop(s *session) {
	t.unlink(s)
	s.leaveLedger()
	s.home, s.served = nil, nil
	if r := s.resident; r != nil {
		r.res.remove(s)
	}
	for _, h := range s.holdings {
		h.replica.cache.remove(h)
	}
	s.holdings = nil
	if s.hosted != nil {
		s.hosted.drop()
	}
	t.leaveRoot(s)
	delete(t.byKey, s.key)
}

// expire moves what has been idle for window to the dormant list and forgets
// what has been idle for ttl. It returns how many were forgotten.
func (t *table) expire(now time.Time, window, ttl time.Duration) int {
	for s := t.active.tail; s != nil && now.Sub(s.lastSeen) > window; s = t.active.tail {
		if s.busy() {
			t.touch(s, now)
			continue
		}
		t.active.remove(s)
		s.leaveLedger()
		s.active = false
		s.joinLedger()
		t.dormant.pushFront(s)
	}
	n := 0
	for s := t.dormant.tail; s != nil && now.Sub(s.lastSeen) > ttl; s = t.dormant.tail {
		t.drop(s)
		n++
	}
	return n
}

// evict makes the table smaller than limit by forgetting the least recently
// seen conversations that are not busy. It looks at a few busy ones at most:
// there are never more of those than turns in flight and waiting.
func (t *table) evict(limit int) int {
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

func (t *table) oldestIdle() *session {
	if t.dormant.tail != nil {
		return t.dormant.tail
	}
	for s := t.active.tail; s != nil; s = s.prev {
		if !s.busy() {
			return s
		}
	}
	return nil
}

// sessionList is an intrusive list, most recently seen first.
type sessionList struct{ head, tail *session }

func (l *sessionList) pushFront(s *session) {
	s.prev, s.next = nil, l.head
	if l.head != nil {
		l.head.prev = s
	} else {
		l.tail = s
	}
	l.head = s
}

func (l *sessionList) remove(s *session) {
	if s.prev != nil {
		s.prev.next = s.next
	} else {
		l.head = s.next
	}
	if s.next != nil {
		s.next.prev = s.prev
	} else {
		l.tail = s.prev
	}
	s.prev, s.next = nil, nil
}
