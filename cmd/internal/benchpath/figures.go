package benchpath

import (
	"math"
	"slices"
)

// percentile is the smallest value that p percent do not exceed; nil of fewer
// than least values. It sorts them.
func percentile(values []float64, p float64, least int) *float64 {
	if len(values) < max(1, least) {
		return nil
	}
	slices.Sort(values)
	at := int(math.Ceil(p/100*float64(len(values)))) - 1
	return of(values[max(0, at)])
}

// median of those that are there; nil if none is.
func median(values []*float64) *float64 {
	var there []float64
	for _, v := range values {
		if v != nil {
			there = append(there, *v)
		}
	}
	if len(there) == 0 {
		return nil
	}
	slices.Sort(there)
	n := len(there)
	return of((there[(n-1)/2] + there[n/2]) / 2)
}

// minus and ratio are nil where one side is.
func minus(a, b *float64) *float64 {
	if a == nil || b == nil {
		return nil
	}
	return of(*a - *b)
}

func ratio(a, b *float64) *float64 {
	if a == nil || b == nil || *b == 0 {
		return nil
	}
	return of(*a / *b)
}

// per scales an amount to a number of things; nil if there were none.
func per(amount *float64, things, of float64) *float64 {
	if amount == nil || things == 0 {
		return nil
	}
	v := *amount / things * of
	return &v
}
