package queue

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

var start = time.Unix(1_000_000, 0)

// at makes a place of rank and arrival so many seconds after the start.
func at(name, key string, rank, since, work int) *Place[string] {
	second := func(n int) time.Time { return start.Add(time.Duration(n) * time.Second) }
	return &Place[string]{Turn: name, Key: key, Rank: second(rank), Since: second(since), Work: work}
}

func names(places []*Place[string]) (out []string) {
	for _, p := range places {
		out = append(out, p.Turn)
	}
	return out
}

func TestRankThenArrival(t *testing.T) {
	var q Queue[string]
	a, b, c, d := at("a", "", 5, 5, 1), at("b", "", 5, 6, 1), at("c", "", 2, 7, 1), at("d", "", 9, 8, 1)
	for _, p := range []*Place[string]{a, b, c, d} {
		q.Push(p)
	}
	if got := names(q.InOrder()); !slices.Equal(got, []string{"c", "a", "b", "d"}) {
		t.Errorf("order %v", got)
	}
	if q.Longest() != a || !q.Oldest().Equal(a.Since) {
		t.Errorf("%s has waited longest, want a", q.Longest().Turn)
	}
	if !q.Remove(a) || q.Remove(a) || q.Longest() != b {
		t.Error("the next oldest after the first has left is not b")
	}
	d.Rank = start
	q.Sort()
	if got := names(q.Ranked()); !slices.Equal(got, []string{"d", "c", "b"}) {
		t.Errorf("order after a change of rank: %v", got)
	}
}

func TestOrderBetweenKeys(t *testing.T) {
	var q Queue[string]
	for i := range 4 {
		q.Push(at(fmt.Sprint("x", i), "x", i, i, 10))
	}
	q.Push(at("y0", "y", 4, 4, 25))
	q.Push(at("y1", "y", 5, 5, 10))
	// Equal at 0: the earlier rank. Then x stands at 10, y at 0; y is charged 25.
	want := []string{"x0", "y0", "x1", "x2", "y1", "x3"}
	if got := names(q.InOrder()); !slices.Equal(got, want) {
		t.Errorf("order %v, want %v", got, want)
	}
	q.Charge("x", 100)
	if got := names(q.InOrder())[:2]; !slices.Equal(got, []string{"y0", "y1"}) {
		t.Errorf("x has been charged 100 tokens and yet %v come first", got)
	}
}

func TestAPauseSavesNothingUp(t *testing.T) {
	var q Queue[string]
	q.Push(at("x0", "x", 0, 0, 10))
	for range 10 {
		q.Serve("x", 1000) // alone, while nobody else wants anything
	}
	q.Push(at("y0", "y", 1, 1, 10))
	q.Push(at("y1", "y", 2, 2, 10))
	if got := names(q.InOrder()); !slices.Equal(got, []string{"y0", "y1", "x0"}) && !slices.Equal(got, []string{"y0", "x0", "y1"}) {
		t.Errorf("order %v: a newcomer starts behind the one served last", got)
	}
	if n := len(q.fair.given); n > 1 {
		t.Errorf("%d keys are remembered, at most the one that is ahead needs to be", n)
	}
}

// The order that is kept between two calls is the one that a new queue with the
// same turns and charges would give.
func TestKeptOrderIsTheOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var q Queue[string]
	var places []*Place[string]
	for i := range 3000 {
		key := string(rune('a' + rng.IntN(4)))
		switch op := rng.IntN(5); {
		case op < 2:
			p := at(fmt.Sprint(i), key, rng.IntN(50), i, 1+rng.IntN(50))
			places = append(places, p)
			q.Push(p)
		case op == 2 && len(places) > 0:
			n := rng.IntN(len(places))
			q.Remove(places[n])
			places = slices.Delete(places, n, n+1)
		case op == 3:
			q.Serve(key, rng.IntN(100))
		default:
			q.Charge(key, rng.IntN(100))
		}
		kept := names(q.InOrder())
		q.valid = false
		if again := names(q.InOrder()); !slices.Equal(kept, again) {
			t.Fatalf("step %d: kept %v, made anew %v", i, kept, again)
		}
		if len(kept) != len(places) {
			t.Fatalf("step %d: %d in order of %d", i, len(kept), len(places))
		}
	}
}

func BenchmarkInOrder(b *testing.B) {
	var q Queue[string]
	for i := range 1000 {
		q.Push(at(fmt.Sprint(i), fmt.Sprint("user", i%8), i, i, 100))
	}
	b.ReportAllocs()
	b.Run("kept", func(b *testing.B) {
		for b.Loop() {
			q.InOrder()
		}
	})
	b.Run("after a charge", func(b *testing.B) {
		for b.Loop() {
			q.Charge("user3", 1)
			q.InOrder()
		}
	})
}
