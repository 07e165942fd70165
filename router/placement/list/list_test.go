package list

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// contents reads the list both ways and returns it from the front.
func contents(t *testing.T, l *List[int]) []int {
	t.Helper()
	var there, back []int
	for n := l.Front(); n != nil; n = n.Next() {
		there = append(there, n.Value)
	}
	for n := l.Back(); n != nil; n = n.Prev() {
		back = append(back, n.Value)
	}
	slices.Reverse(back)
	if !slices.Equal(there, back) {
		t.Fatalf("forwards %v, backwards %v", there, back)
	}
	return there
}

func TestListIsASliceWithoutSearches(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	nodes := make([]Node[int], 8)
	for i := range nodes {
		nodes[i].Value = i
	}
	var l List[int]
	var want []int
	for range 5000 {
		n := &nodes[rng.IntN(len(nodes))]
		at := slices.Index(want, n.Value)
		if at < 0 && rng.IntN(2) == 0 {
			l.PushFront(n)
			want = slices.Insert(want, 0, n.Value)
		} else {
			l.Remove(n) // also of one that is in no list
			if at >= 0 {
				want = slices.Delete(want, at, at+1)
			}
		}
		if got := contents(t, &l); !slices.Equal(got, want) {
			t.Fatalf("holds %v, want %v", got, want)
		}
	}
}

func TestListAllocatesNothing(t *testing.T) {
	var l List[int]
	var n Node[int]
	if allocs := testing.AllocsPerRun(100, func() { l.PushFront(&n); l.Remove(&n) }); allocs != 0 {
		t.Errorf("%v allocations to add and remove", allocs)
	}
}
