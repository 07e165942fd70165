package rivals

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/lm-warden/warden/router/placement"
)

// cacheAware is the rule of that name in SMG 1.13 with its defaults, in front
// of engines that speak HTTP: github.com/smg-project/smg (cache_aware.rs,
// least_load.rs, string_tree.rs, overload.rs, routers/common/overload.rs) of
// autumn 2026, the margin and all thresholds tried on the released program with
// engines that only pretend.
//
// It scrapes the engines every 10 s. One with 8 requests waiting or 0.8 of its
// KV cache in use is over and gets nothing while another is not; if all are
// over, the fewest in flight decide and the tree is not told.
//
// Otherwise a tree of the messages' characters names the replicas that were
// sent the longest beginning of this prompt, if it is more than 0.3 of it. Of
// these the hot ones are left out, then, if all are, of the others: hot is more
// in flight than 1.5 times the mean and than the mean by twice its root, rounded
// up, at least 4 and at most 64. Who remains, or everyone where the tree knows
// nobody, is ranked by expected wait; ties are drawn. A turn is in flight until
// its answer ends. No session header and no KV events take part, and the tree,
// 67 million characters, never fills here.
type cacheAware struct {
	rng    *rand.Rand
	told   map[placement.Key]*told
	polled time.Time
	polls  []poll // by the replica's index
}

// told is a conversation in the tree.
type told struct {
	root     uint64
	text     uint64 // stands for what follows the root's shared text
	tokens   int    // of the latest prompt
	replicas []int  // that were sent it, the latest last
}

// poll is what the last scrape of an engine said.
type poll struct {
	running, waiting int
	kv               float64
	since            int // turns sent there since
}

func newCacheAware(seed uint64) rule {
	return &cacheAware{rng: rand.New(rand.NewPCG(seed, 29)), told: map[placement.Key]*told{}}
}

func (c *cacheAware) pick(f *fleet, t *placement.Turn, now time.Time) *replica {
	c.poll(f, now)
	free := keep(f.open, func(r *replica) bool { return !c.polls[r.index].over() })
	if len(free) == 0 {
		return c.least(f.open, func(r *replica) float64 { return float64(r.held) })
	}
	known := c.holders(f, t)
	holders := keep(free, func(r *replica) bool { return slices.Contains(known, r.index) })
	cool := coolest(free)
	from := keep(holders, cool)
	if len(from) == 0 && len(holders) > 0 {
		from = keep(free, cool)
	}
	if len(from) == 0 {
		from = free
	}
	best := c.least(from, func(r *replica) float64 { return c.polls[r.index].wait(r.held) })
	c.polls[best.index].since++
	c.tell(t, best.index)
	return best
}

// poll takes the engines' figures when the last are old enough.
func (c *cacheAware) poll(f *fleet, now time.Time) {
	const every = 10 * time.Second
	if len(c.polls) == len(f.replicas) && now.Sub(c.polled) < every {
		return
	}
	c.polls, c.polled = make([]poll, len(f.replicas)), now
	for i, r := range f.replicas {
		c.polls[i] = poll{running: r.stats.Running, waiting: r.stats.Waiting, kv: r.stats.KVUsed}
	}
}

func (p poll) over() bool {
	const waiting, kv = 8, 0.8
	return p.waiting >= waiting || p.kv >= kv
}

// wait is the expected wait in seconds on an engine with so many turns in flight.
// vLLM's scrape has no queued tokens and no rate, so every request counts as 1024
// tokens at 2000 a second: those that wait, run or were sent since, and turns in
// flight that are neither.
func (p poll) wait(held int) float64 {
	const prompt, rate, pressure = 1024, 2000, 0.15
	kv := min(p.kv, 0.999)
	return prompt*float64(max(p.waiting+p.running+p.since, held))/rate + pressure*kv/(1-kv)
}

// coolest says which replicas of a set are not hot.
func coolest(set []*replica) func(*replica) bool {
	const factor, least, most = 1.5, 4, 64
	sum := 0
	for _, r := range set {
		sum += r.held
	}
	mean := float64(sum) / float64(len(set))
	margin := min(max(math.Ceil(2*math.Sqrt(mean)), least), most)
	return func(r *replica) bool {
		held := float64(r.held)
		return held <= factor*mean || held <= mean+margin
	}
}

// holders are the replicas that the tree names for a turn. A conversation that
// it has not seen shares the root's text with all others of that root and, by
// chance, some letters more with a few: the most such letters count, so most
// first turns follow one earlier conversation.
func (c *cacheAware) holders(f *fleet, t *placement.Turn) []int {
	const threshold = 0.3
	own := c.told[t.Key]
	matched := f.info.Shared[t.Root]
	if own != nil {
		matched = own.tokens
	}
	if float64(matched) <= threshold*float64(t.PromptTokens) {
		return nil
	}
	if own != nil {
		return own.replicas[len(own.replicas)-1:]
	}
	var holders []int
	text, longest := textOf(t), 0
	for _, other := range c.told {
		letters := bits.LeadingZeros64(other.text^text) / letterBits
		if other.root != t.Root || letters < longest {
			continue
		}
		if letters > longest {
			longest, holders = letters, nil
		}
		holders = append(holders, other.replicas...)
	}
	return holders
}

// letterBits is an alphabet of 16: words begin with few of the letters.
const letterBits = 4

func textOf(t *placement.Turn) uint64 { return xxhash.Sum64(t.Key[:]) }

// tell puts the turn's prompt into the tree.
func (c *cacheAware) tell(t *placement.Turn, to int) {
	conv := c.told[t.Key]
	if conv == nil {
		conv = &told{root: t.Root, text: textOf(t)}
		c.told[t.Key] = conv
	}
	conv.tokens = t.PromptTokens
	conv.replicas = append(slices.DeleteFunc(conv.replicas, func(i int) bool { return i == to }), to)
}

// least draws among those of a set with the smallest value of by.
func (c *cacheAware) least(set []*replica, by func(*replica) float64) *replica {
	low := by(least(set, by))
	tied := keep(set, func(r *replica) bool { return by(r) == low })
	return tied[c.rng.IntN(len(tied))]
}

// keep is those of a set for which ok holds.
func keep(set []*replica, ok func(*replica) bool) []*replica {
	var out []*replica
	for _, r := range set {
		if ok(r) {
			out = append(out, r)
		}
	}
	return out
}
