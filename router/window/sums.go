package window

import "time"

// Sums adds up a vector of N counters per slot, for example cached and
// computed prompt tokens, and answers totals and rates over a recent span.
type Sums struct{ ring *Ring[[SumFields]float64] }

// SumFields is how many counters one Sums carries side by side.
const SumFields = 4

// NewSums keeps n slots of width each from base on.
func NewSums(base time.Time, width time.Duration, n int) *Sums {
	return &Sums{NewRing[[SumFields]float64](base, width, n)}
}

// Add counts v for field (0 to SumFields-1) at now.
func (s *Sums) Add(now time.Time, field int, v float64) { s.ring.At(now)[field] += v }

// Total is the sum of field over the last span.
func (s *Sums) Total(now time.Time, span time.Duration, field int) (sum float64) {
	s.ring.Each(now, span, func(v *[SumFields]float64) { sum += v[field] })
	return sum
}

// Rate is Total per second of the time really covered, so that it is right
// also in the first seconds; 0 before any time has passed.
func (s *Sums) Rate(now time.Time, span time.Duration, field int) float64 {
	covered := s.ring.Covered(now, span).Seconds()
	if covered <= 0 {
		return 0
	}
	return s.Total(now, span, field) / covered
}
