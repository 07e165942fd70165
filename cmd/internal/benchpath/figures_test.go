package benchpath

import "testing"

func TestPercentile(t *testing.T) {
	hundred := make([]float64, 100) // 100, 99 .. 1
	for i := range hundred {
		hundred[i] = float64(100 - i)
	}
	for name, tc := range map[string]struct {
		values []float64
		p      float64
		least  int
		want   *float64
	}{
		"nothing":         {nil, 50, 0, nil},
		"too few":         {[]float64{1, 2, 3}, 99, 4, nil},
		"just enough":     {[]float64{3, 1, 2}, 50, 3, of(2)},
		"one":             {[]float64{7}, 99, 1, of(7)},
		"p50 of 100":      {hundred, 50, 1, of(50)},
		"p99 of 100":      {hundred, 99, 1, of(99)},
		"the largest":     {hundred, 100, 1, of(100)},
		"even, no mean":   {[]float64{1, 2, 3, 4}, 50, 1, of(2)},
		"below the first": {[]float64{1, 2}, 0, 1, of(1)},
	} {
		if got := percentile(tc.values, tc.p, tc.least); !equal(got, tc.want) {
			t.Errorf("%s: %s, want %s", name, text(got), text(tc.want))
		}
	}
}

func TestArithmetic(t *testing.T) {
	for name, tc := range map[string]struct{ got, want *float64 }{
		"median, one missing":  {median([]*float64{of(9), nil, of(1), of(2)}), of(2)},
		"median of two":        {median([]*float64{of(4), of(1)}), of(2.5)},
		"median of none":       {median([]*float64{nil}), nil},
		"difference":           {minus(of(3), of(5)), of(-2)},
		"difference with none": {minus(of(3), nil), nil},
		"ratio":                {ratio(of(3), of(2)), of(1.5)},
		"ratio to nothing":     {ratio(of(3), of(0)), nil},
		"ratio of none":        {ratio(nil, of(1)), nil},
		"per thousand":         {per(of(0.5), 250, 1000), of(2)},
		"per no things":        {per(of(0.5), 0, 1000), nil},
		"nothing per things":   {per(nil, 3, 1000), nil},
	} {
		if !equal(tc.got, tc.want) {
			t.Errorf("%s: %s, want %s", name, text(tc.got), text(tc.want))
		}
	}
}
