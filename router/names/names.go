// Package names helps people who mistype a name.
package names

import (
	"slices"
	"strings"
)

// Closest returns the known name that is most like name, "" when none is like
// it: at most a third of its letters may differ, and two always may.
func Closest(name string, known []string) string {
	known = slices.Sorted(slices.Values(known)) // the same answer for the same names
	best, distance := "", max(2, len(name)/3)+1
	for _, n := range known {
		if d := editDistance(strings.ToLower(name), strings.ToLower(n)); d < distance {
			best, distance = n, d
		}
	}
	return best
}

// longest bounds the work: this runs on what a client sent.
const longest = 200

// editDistance counts the letters to insert, delete or replace. Long names are
// cut.
func editDistance(a, b string) int {
	a, b = a[:min(len(a), longest)], b[:min(len(b), longest)]
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
