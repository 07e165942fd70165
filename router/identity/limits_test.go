package identity

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/lm-warden/warden/router/identity/scan"
)

func TestIndexForgets(t *testing.T) {
	x := NewIndex(Limits{Idle: time.Hour})
	first := x.Resolve(turnsOf("", "s", "a"), testStart)
	x.Finish(first, Done, testStart.Add(time.Minute))
	if r := x.Resolve(turnsOf("", "s", "a", "1", "b"), testStart.Add(60*time.Minute)); r.Kind != KindSame {
		t.Errorf("after 59 idle minutes: %s", r.Kind)
	} else {
		x.Finish(r, Done, testStart.Add(60*time.Minute))
	}
	id, later := turnsOf("", "s", "a", "1", "b", "2", "c"), testStart.Add(120*time.Minute)
	if x.expire(later); x.RootKnown(&id) {
		t.Error("a root is known after 60 idle minutes")
	}
	if r := x.Resolve(id, later); r.Kind != KindNew {
		t.Errorf("after 60 idle minutes: %+v", r)
	}
	x.check(t)

	x = NewIndex(Limits{Conversations: 2})
	for _, name := range []string{"a", "b", "c"} {
		x.Finish(x.Resolve(turnsOf(name, "s", name), testStart), Done, testStart)
	}
	if x.Len() != 2 || x.byKey[newKey("a")] != nil {
		t.Errorf("the oldest of three is still among %d", x.Len())
	}
}

// Memory has a bound: many long conversations push out the oldest.
func TestIndexTotalTurns(t *testing.T) {
	x := NewIndex(Limits{TotalTurns: 1000})
	long := make([]string, 300)
	for i := range long {
		long[i] = fmt.Sprint(i)
	}
	for i := range 10 {
		r := x.Resolve(turnsOf(fmt.Sprint(i), fmt.Sprint("root", i), long...), testStart)
		x.Finish(r, Done, testStart)
		x.check(t)
	}
	if x.total > 1000 || x.Len() != 3 {
		t.Errorf("%d turns of %d conversations", x.total, x.Len())
	}
	// The newest 256 turns of 300 are kept, so turn 60 is, and turn 10 is not.
	old := turnsOf("old", "root9", append(slices.Clone(long[:10]), "else")...)
	if !x.RootKnown(&old) {
		t.Error("the root of a conversation that is kept is not known")
	}
	if r := x.Resolve(old, testStart); r.Kind != KindNew {
		t.Errorf("fork at turn 10: %+v", r)
	}
	if r := x.Resolve(turnsOf("fork", "root9", append(slices.Clone(long[:60]), "else")...), testStart); r.Kind != KindFork || r.sharedTurns != 60 {
		t.Errorf("fork at turn 60: %+v", r)
	}
}

// The bound on memory that Limits documents, at its defaults.
func TestIndexMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("fills an Index to its limits")
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	x := NewIndex(Limits{})
	shapes := make([]*shape, 500)
	for i := range shapes {
		shapes[i] = &shape{blocks: make([]uint32, 50), tools: make([]scan.Tool, 25)}
	}
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range 12_000 {
		id := Identity{Key: newKey(fmt.Sprint(i)), Class: Main, Root: uint64(i % len(shapes)), chain: make([]uint64, 60)}
		id.outline = outline{shape: shapes[i%len(shapes)], ends: make([]int, 60)}
		for j := range id.chain {
			id.chain[j] = rng.Uint64()
		}
		x.Finish(x.Resolve(id, testStart), Done, testStart)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	used := float64(after.HeapAlloc-before.HeapAlloc) / (1 << 20)
	t.Logf("%d conversations, %d turns: %.1f MiB", x.Len(), x.total, used)
	if used > 30 {
		t.Errorf("%.1f MiB, documented are 30", used)
	}
	runtime.KeepAlive(x)
}
