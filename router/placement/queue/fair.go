package queue

// Fair waiting between users. With one API key the queue is strict first in,
// first out. With several, the next turn is the first of the key that has been
// given the fewest tokens lately: start-time fair queueing with equal weights.
// A key that floods the queue delays itself, and one that comes back after a
// pause has saved up nothing.

// fairness counts the tokens given to each API key, beyond what the one that
// was given least has.
type fairness struct {
	given map[string]float64
	// level is the least count of those who want service: where newcomers start.
	level float64
}

// Serve notes that a turn of key begins, which will take tokens of work, while
// others wait. Those count: a turn that did not have to wait, its conversation
// having a place already, must not lift everybody to where its key stands.
func (q *Queue[T]) Serve(key string, tokens int) {
	f := &q.fair
	level := f.start(key)
	for k := range q.keys {
		level = min(level, f.start(k))
	}
	f.level = max(f.level, level)
	q.Charge(key, tokens)
	for k, n := range f.given {
		if n <= f.level {
			delete(f.given, k) // level with newcomers: nothing to remember
		}
	}
}

// Charge counts work that came after a turn of key began: its answer.
func (q *Queue[T]) Charge(key string, tokens int) {
	f := &q.fair
	if f.given == nil {
		f.given = map[string]float64{}
	}
	f.given[key] = f.start(key) + float64(tokens)
	q.valid = false
}

// start is where key stands.
func (f *fairness) start(key string) float64 { return max(f.given[key], f.level) }

// user is a key whose turns wait.
type user[T any] struct {
	at    float64     // where it will stand when its next turn is served
	turns []*Place[T] // by rank
}

// before reports that x's next turn is served before y's.
func (x *user[T]) before(y *user[T]) bool {
	if x.at != y.at {
		return x.at < y.at
	}
	return x.turns[0].Rank.Before(y.turns[0].Rank)
}

// InOrder returns the turns in the order of service. Within a key that is their
// order in the queue. The slice is the queue's own: valid until it changes.
func (q *Queue[T]) InOrder() []*Place[T] {
	if len(q.keys) < 2 {
		return q.turns
	}
	if q.valid {
		return q.served
	}
	byKey := make(map[string]int, len(q.keys))
	users := make([]user[T], 0, len(q.keys))
	for _, p := range q.turns {
		i, known := byKey[p.Key]
		if !known {
			i, byKey[p.Key] = len(users), len(users)
			users = append(users, user[T]{at: q.fair.start(p.Key), turns: make([]*Place[T], 0, q.keys[p.Key])})
		}
		users[i].turns = append(users[i].turns, p)
	}
	clear(q.served)
	q.served, q.valid = q.served[:0], true
	for len(users) > 0 {
		next := 0
		for i := range users {
			if users[i].before(&users[next]) {
				next = i
			}
		}
		u := &users[next]
		q.served = append(q.served, u.turns[0])
		u.at += float64(u.turns[0].Work)
		if u.turns = u.turns[1:]; len(u.turns) == 0 {
			users = append(users[:next], users[next+1:]...) // in order: the first of equals goes first
		}
	}
	return q.served
}
