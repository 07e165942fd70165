package placement

import (
	"slices"
	"time"
)

// queue holds the turns that wait, ordered by rank and, at equal rank, by
// arrival. Under balance and affinity the rank is the time of arrival: strict
// first in, first out.
type queue struct{ turns []*turn }

func (q *queue) len() int { return len(q.turns) }

func (q *queue) push(t *turn) {
	i := len(q.turns)
	for i > 0 && q.turns[i-1].rank.After(t.rank) {
		i--
	}
	q.turns = slices.Insert(q.turns, i, t)
	if t.session != nil {
		t.session.waiting++
	}
}

func (q *queue) remove(t *turn) {
	i := slices.Index(q.turns, t)
	if i < 0 {
		return
	}
	q.turns = slices.Delete(q.turns, i, i+1)
	if t.session != nil {
		t.session.waiting--
	}
}

// position counts from 1; 0 when t does not wait.
func (q *queue) position(t *turn) int { return slices.Index(q.turns, t) + 1 }

// oldest is when the turn that has waited longest came, zero when none waits.
func (q *queue) oldest() time.Time {
	var first time.Time
	for _, t := range q.turns {
		if first.IsZero() || t.queued.Before(first) {
			first = t.queued
		}
	}
	return first
}

// sort restores the order after ranks have changed.
func (q *queue) sort() {
	slices.SortStableFunc(q.turns, func(a, b *turn) int { return a.rank.Compare(b.rank) })
}
