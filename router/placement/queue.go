package placement

import (
	"slices"
	"time"
)

// queue holds the turns that wait, ordered by rank and, at equal rank, by
// arrival. Under balance and affinity the rank is the time of arrival: strict
// first in, first out.
type queue struct {
	turns []*turn
	// oldest is when the turn that has waited longest came, zero when none
	// waits.
	oldest time.Time
	// blocked is why the first of those that wait for room does, "" when none
	// does: nobody may take that room.
	blocked Why
	// apart says that some wait for reasons of their own.
	apart bool
	// keys counts the turns of each API key.
	keys map[string]int
}

func (q *queue) len() int { return len(q.turns) }

func (q *queue) push(t *turn) {
	i := len(q.turns)
	for i > 0 && q.turns[i-1].rank.After(t.rank) {
		i--
	}
	q.turns = slices.Insert(q.turns, i, t)
	q.oldest = earlier(q.oldest, t.queued)
	if q.keys == nil {
		q.keys = map[string]int{}
	}
	q.keys[t.APIKey]++
	if t.session != nil {
		t.session.waiting++
		t.session.noteBusy()
	}
}

func (q *queue) remove(t *turn) {
	i := slices.Index(q.turns, t)
	if i < 0 {
		return
	}
	q.turns = slices.Delete(q.turns, i, i+1)
	if q.keys[t.APIKey]--; q.keys[t.APIKey] == 0 {
		delete(q.keys, t.APIKey)
	}
	if t.session != nil {
		t.session.waiting--
		t.session.noteBusy()
	}
	if t.queued.Equal(q.oldest) {
		q.oldest = time.Time{}
		for _, w := range q.turns {
			q.oldest = earlier(q.oldest, w.queued)
		}
	}
}

// sort restores the order after ranks have changed.
func (q *queue) sort() {
	slices.SortStableFunc(q.turns, func(a, b *turn) int { return a.rank.Compare(b.rank) })
}
