package realladder

import "math"

// fit finds factors, none of them negative, with which the terms of each point
// add up to its value, at the least sum of squared relative errors.
type fit struct {
	values  []float64
	terms   [][]float64
	factors []float64
}

func (f *fit) add(value float64, terms ...float64) {
	f.values = append(f.values, value)
	f.terms = append(f.terms, terms)
}

// solve returns the factors. A term whose best factor would be negative, the
// worst first, is left out: costs are not.
func (f *fit) solve() []float64 {
	n := len(f.terms[0])
	used := make([]bool, n)
	for i := range used {
		used[i] = true
	}
	for {
		f.factors = f.least(used)
		worst := -1
		for i, x := range f.factors {
			if x < 0 && (worst < 0 || x < f.factors[worst]) {
				worst = i
			}
		}
		if worst < 0 {
			return f.factors
		}
		used[worst] = false
	}
}

// least solves the normal equations over the used terms by elimination.
func (f *fit) least(used []bool) []float64 {
	n := len(used)
	m := make([][]float64, n) // the last column is the right side
	for i := range m {
		m[i] = make([]float64, n+1)
		if !used[i] {
			m[i][i] = 1
			continue
		}
		for p, terms := range f.terms {
			v := f.values[p]
			for j := range n {
				if used[j] {
					m[i][j] += terms[i] * terms[j] / (v * v)
				}
			}
			m[i][n] += terms[i] / v
		}
	}
	for col := range n {
		pivot := col
		for row := col + 1; row < n; row++ {
			if math.Abs(m[row][col]) > math.Abs(m[pivot][col]) {
				pivot = row
			}
		}
		m[col], m[pivot] = m[pivot], m[col]
		for row := range n {
			if row == col || m[col][col] == 0 {
				continue
			}
			scale := m[row][col] / m[col][col]
			for k := col; k <= n; k++ {
				m[row][k] -= scale * m[col][k]
			}
		}
	}
	out := make([]float64, n)
	for i := range out {
		if m[i][i] != 0 {
			out[i] = m[i][n] / m[i][i]
		}
	}
	return out
}

// worst is the largest relative error.
func (f *fit) worst() float64 {
	largest := 0.0
	for p, terms := range f.terms {
		sum := 0.0
		for i, t := range terms {
			sum += t * f.factors[i]
		}
		largest = max(largest, math.Abs(sum/f.values[p]-1))
	}
	return largest
}
