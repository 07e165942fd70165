package benchpath

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Kinds of work.
const (
	paced  = "paced"  // every stream once, at an engine's pace
	loop   = "loop"   // paced streams one after another: many first bytes
	fast   = "fast"   // streams one after another, as fast as they go
	bodies = "bodies" // requests one after another, with a short answer
)

// work is one row of the tables.
type work struct {
	Kind      string
	Streams   int // clients at the same time
	BodyBytes int
	Script    script
}

// Sizes of the work.
const (
	streamEvents   = 200
	streamInterval = 20 * time.Millisecond
	quietInterval  = 250 * time.Millisecond // 4 events a second: figure 13
	smallBody      = 1 << 10
	agentBody      = 60_000
	firstByteLoad  = 128 // streams, with agentBody: figure 14
	loopEvents     = 50  // a second
	fastStreams    = 16
	fastEvents     = 2000
	bodyClients    = 4
)

func bodySizes() []int { return []int{smallBody, agentBody, 1 << 20, 8 << 20} }

// works are all rows. Streams come in the order of their number: what memory a
// proxy holds for them shows only while it has not yet held more.
func works(o Options) []work {
	var out []work
	for _, n := range o.Quiet {
		// Every stream must live from the last one's start to the window's end.
		d := ramp(n) + settle + o.Length
		out = append(out, work{paced, n, smallBody, script{int(d/quietInterval) + 2, quietInterval}})
	}
	for _, n := range o.Streams {
		out = append(out, work{paced, n, smallBody, script{streamEvents, streamInterval}})
	}
	slices.SortStableFunc(out, func(a, b work) int { return cmp.Compare(a.Streams, b.Streams) })
	if o.Loop > 0 {
		out = append(out, work{loop, o.Loop, agentBody, script{loopEvents, streamInterval}})
	}
	if o.Fast > 0 {
		out = append(out, work{fast, o.Fast, smallBody, script{fastEvents, 0}})
	}
	for _, size := range o.Bodies {
		out = append(out, work{bodies, bodyClients, size, script{Events: 1}})
	}
	return out
}

func (w work) stream() bool { return w.Kind != bodies }

// String names the row.
func (w work) String() string {
	switch w.Kind {
	case bodies:
		return fmt.Sprintf("bodies of %s, %d clients", size(w.BodyBytes), w.Streams)
	case fast:
		return fmt.Sprintf("%d streams as fast as they go", w.Streams)
	case loop:
		return fmt.Sprintf("%d streams one after another, bodies of %s", w.Streams, size(w.BodyBytes))
	}
	return fmt.Sprintf("%s at %.3g events/s", count(w.Streams, "stream"), float64(time.Second)/float64(w.Script.Interval))
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func size(bytes int) string {
	switch {
	case bytes >= 1<<20:
		return fmt.Sprintf("%d MiB", bytes>>20)
	case bytes >= 10_000:
		return fmt.Sprintf("%d kB", bytes/1000)
	}
	return fmt.Sprintf("%d B", bytes)
}

// settle is the time between the start of the last stream and the window in
// which nothing happens but events.
const settle = 300 * time.Millisecond

// ramp spreads the starts of n streams: a thousand a second are about what a
// core can start while it does other work.
func ramp(n int) time.Duration {
	return max(200*time.Millisecond, time.Duration(n)*time.Millisecond*3/4)
}

// descriptors that a proxy needs: one to the client and one to the engine for
// each stream, and some of its own.
func (w work) descriptors() uint64 { return uint64(2*w.Streams + 500) }
