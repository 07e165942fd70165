// Package window keeps figures about the recent past in bounded memory: sums
// and quantiles over the last seconds, minutes or hours.
//
// Ring is the one implementation of "the last n slots of time"; Sums and
// Durations are the two kinds of slot the router needs. Nothing here reads a
// clock or takes a lock: every call is told the time, and the owner serialises.
package window

import "time"

// Ring holds one T for each of the newest slots of a fixed width. A slot that
// time has passed by without a write reads as absent, not as its old value.
type Ring[T any] struct {
	base  time.Time
	width time.Duration
	slots []slot[T]
}

type slot[T any] struct {
	number int64 // slots since base, plus 1 so that the zero slot is unused
	value  T
}

// NewRing makes a ring of n slots, each width long, that begins at base.
// It panics when n or width is not positive: both are constants of the caller.
func NewRing[T any](base time.Time, width time.Duration, n int) *Ring[T] {
	if n <= 0 || width <= 0 {
		panic("window: a ring needs at least one slot of positive width")
	}
	return &Ring[T]{base: base, width: width, slots: make([]slot[T], n)}
}

// At returns the slot of now, empty when it is the first use of that slot.
// A time before the newest slot's lap is folded into the slot it maps to.
func (r *Ring[T]) At(now time.Time) *T {
	number := r.number(now)
	s := &r.slots[number%int64(len(r.slots))]
	if number > s.number {
		*s = slot[T]{number: number}
	}
	return &s.value
}

// Each calls f for every written slot of the last span up to and including
// now, oldest first.
func (r *Ring[T]) Each(now time.Time, span time.Duration, f func(*T)) {
	last := r.number(now)
	for number := max(1, last-r.count(span)+1); number <= last; number++ {
		s := &r.slots[number%int64(len(r.slots))]
		if s.number == number {
			f(&s.value)
		}
	}
}

// Covered is the time that Each over the same span looks at: less than span
// while the ring is younger than that, and because the newest slot is not over.
func (r *Ring[T]) Covered(now time.Time, span time.Duration) time.Duration {
	age := max(0, now.Sub(r.base))
	into := age - time.Duration(r.number(now)-1)*r.width
	return min(age, time.Duration(r.count(span)-1)*r.width+into)
}

func (r *Ring[T]) number(now time.Time) int64 {
	return max(0, int64(now.Sub(r.base)/r.width)) + 1
}

func (r *Ring[T]) count(span time.Duration) int64 {
	n := int64((span + r.width - 1) / r.width)
	return min(max(1, n), int64(len(r.slots)))
}
