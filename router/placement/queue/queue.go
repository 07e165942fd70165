// Package queue holds the turns that wait, and says in which order they are
// served. With one API key that is the order of the queue: rank, and at equal
// rank arrival. With several it is fair between them.
//
// Reader's path: queue.go keeps the order within a key, fair.go the order
// between keys.
package queue

import (
	"slices"
	"time"
)

// Place is a turn's place in the queue. The turn holds it and sets Turn to what
// the queue is to yield: itself.
type Place[T any] struct {
	Turn  T
	Rank  time.Time // order: the earliest first
	Since time.Time // when it began to wait; zero when it does not
	Key   string    // whose it is
	Work  int       // tokens that it is charged for
}

// Queue holds turns. Its zero value is empty.
type Queue[T any] struct {
	turns []*Place[T]
	// oldest is when the turn that has waited longest came, zero when none
	// waits.
	oldest time.Time
	fair   fairness
	keys   map[string]int // turns of each key

	// served is the order between several keys, as long as it holds.
	served []*Place[T]
	valid  bool
}

// Len is how many wait.
func (q *Queue[T]) Len() int { return len(q.turns) }

// Oldest is when the turn that has waited longest came, zero when none waits.
func (q *Queue[T]) Oldest() time.Time { return q.oldest }

// Longest is the turn that has waited longest.
func (q *Queue[T]) Longest() *Place[T] {
	return q.turns[slices.IndexFunc(q.turns, func(p *Place[T]) bool { return p.Since.Equal(q.oldest) })]
}

// Ranked returns the turns by rank. It is the queue's own slice: valid until the
// queue changes.
func (q *Queue[T]) Ranked() []*Place[T] { return q.turns }

// Push adds a turn behind those of its rank.
func (q *Queue[T]) Push(p *Place[T]) {
	i := len(q.turns)
	for i > 0 && q.turns[i-1].Rank.After(p.Rank) {
		i--
	}
	q.turns, q.valid = slices.Insert(q.turns, i, p), false
	q.note(p)
	if q.keys == nil {
		q.keys = map[string]int{}
	}
	q.keys[p.Key]++
}

// Remove takes a turn out and reports whether it was there.
func (q *Queue[T]) Remove(p *Place[T]) bool {
	i := slices.Index(q.turns, p)
	if i < 0 {
		return false
	}
	q.turns, q.valid = slices.Delete(q.turns, i, i+1), false
	if q.keys[p.Key]--; q.keys[p.Key] == 0 {
		delete(q.keys, p.Key)
	}
	if p.Since.Equal(q.oldest) {
		q.oldest = time.Time{}
		for _, w := range q.turns {
			q.note(w)
		}
	}
	if len(q.turns) == 0 {
		q.served = nil
	}
	return true
}

// note keeps oldest with one more that waits.
func (q *Queue[T]) note(p *Place[T]) {
	if q.oldest.IsZero() || p.Since.Before(q.oldest) {
		q.oldest = p.Since
	}
}

// Sort restores the order after ranks have changed.
func (q *Queue[T]) Sort() {
	slices.SortStableFunc(q.turns, func(a, b *Place[T]) int { return a.Rank.Compare(b.Rank) })
	q.valid = false
}
