package agreement

import (
	"context"
	"fmt"
	"net/http"
)

// Engine is where to ask.
type Engine struct {
	Client *http.Client
	Base   string // http://host
}

// Play asks turn after turn and returns what the engine said of each.
func Play(ctx context.Context, e Engine, script []Turn) ([]Outcome, error) {
	said := make([]Outcome, 0, len(script))
	for _, t := range script {
		o, err := Ask(ctx, e.Client, e.Base, t)
		if err != nil {
			return said, err
		}
		said = append(said, o)
	}
	return said, nil
}

// Difference is a turn of which two engines do not say the same.
type Difference struct {
	Turn Turn
	A, B Outcome
}

func (d Difference) String() string {
	return fmt.Sprintf("turn %d (%s): %+v and %+v", d.Turn.N, d.Turn.Kind, d.A, d.B)
}

// Compare returns every turn of which a and b, played from script, differ.
func Compare(script []Turn, a, b []Outcome) []Difference {
	var found []Difference
	for i, t := range script {
		if a[i] != b[i] {
			found = append(found, Difference{t, a[i], b[i]})
		}
	}
	return found
}

// Totals add up what an engine said, in tokens.
type Totals struct {
	Prompt, Cached, Output int
	ByKind                 map[string]int // turns
}

// Sum adds up.
func Sum(script []Turn, said []Outcome) Totals {
	sum := Totals{ByKind: map[string]int{}}
	for i, o := range said {
		sum.ByKind[script[i].Kind]++
		sum.Prompt, sum.Cached, sum.Output = sum.Prompt+o.Prompt, sum.Cached+o.Cached, sum.Output+o.Output
	}
	return sum
}
