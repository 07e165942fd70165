package shadow

import (
	"math/rand/v2"
	"testing"
)

// owner counts what it was told to forget.
type owner struct{ forgotten []*Holding }

func (o *owner) Forget(h *Holding) { o.forgotten = append(o.forgotten, h) }

// use runs one request of a holding.
func use(h *Holding, tokens int) {
	h.Pin(tokens)
	h.Unpin(tokens)
}

func TestCacheDropsTheEndOfTheOldest(t *testing.T) {
	var c Cache
	c.SetCapacity(1000)
	var o owner
	var h [3]*Holding
	for i := range h {
		h[i] = c.New(&o)
		use(h[i], 400)
	}
	got := [3]int{h[0].Tokens(), h[1].Tokens(), h[2].Tokens()}
	if got != [3]int{200, 400, 400} {
		t.Errorf("holdings %v, want the oldest cut to 200", got)
	}
	h[0].Pin(400) // a running request is never dropped
	if h[1].Tokens() != 200 {
		t.Errorf("second oldest has %d, want 200", h[1].Tokens())
	}
	seen := 0
	c.Displaced(500, 8, func(_ *Holding, n int) { seen += n })
	if seen != 500 || c.Used() != 1000 {
		t.Errorf("adding 500 would drop %d of %d", seen, c.Used())
	}
	if len(o.forgotten) != 0 {
		t.Error("a holding that still has tokens was forgotten")
	}
	c.SetCapacity(300)
	if len(o.forgotten) != 2 || c.Used() != 400 || !h[0].Pinned() {
		t.Errorf("%d forgotten, %d tokens left; want all but the running request gone", len(o.forgotten), c.Used())
	}
}

func TestDisplacedLooksAtAFewOnly(t *testing.T) {
	var c Cache
	var o owner
	for range 20 {
		use(c.New(&o), 10)
	}
	looked := 0
	c.Displaced(1000, 8, func(*Holding, int) { looked++ })
	if looked != 0 {
		t.Errorf("a cache of unknown size would drop %d holdings", looked)
	}
	c.SetCapacity(200)
	c.Displaced(1000, 8, func(*Holding, int) { looked++ })
	if looked != 8 {
		t.Errorf("looked at %d holdings, at most 8 wanted", looked)
	}
}

func TestAClosedCacheKeepsRunningRequestsUntilTheyEnd(t *testing.T) {
	var c Cache
	var o owner
	running, idle := c.New(&o), c.New(&o)
	use(idle, 50)
	running.Pin(100)
	running.Pin(100)
	c.Close()
	if len(o.forgotten) != 1 || o.forgotten[0] != idle {
		t.Fatalf("forgot %d holdings, want the idle one", len(o.forgotten))
	}
	running.Unpin(100)
	if len(o.forgotten) != 1 {
		t.Error("forgotten while a second request still runs")
	}
	running.Unpin(100)
	if len(o.forgotten) != 2 || c.Used() != 0 {
		t.Errorf("%d forgotten, %d tokens left after the last request", len(o.forgotten), c.Used())
	}
}

// Whatever is done to it, a cache says what its holdings hold, and holds more
// than fits only for running requests.
func FuzzCache(f *testing.F) {
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, 5))
		b := make([]byte, 400)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, program []byte) {
		var c Cache
		var o owner
		var alive []*Holding
		for len(program) >= 2 {
			op, n := program[0], int(program[1])
			program = program[2:]
			switch {
			case len(alive) == 0 || op%8 == 0:
				alive = append(alive, c.New(&o))
			case op%8 == 1:
				c.SetCapacity(20 * n)
			case op%8 == 2 && !alive[n%len(alive)].Pinned():
				alive[n%len(alive)].Drop()
			case op%8 < 5:
				alive[n%len(alive)].Pin(int(op))
			case alive[n%len(alive)].Pinned():
				alive[n%len(alive)].Unpin(int(op))
			}
			alive = check(t, &c, &o, alive)
		}
		c.Close()
		for _, h := range check(t, &c, &o, alive) {
			for h.Pinned() {
				h.Unpin(7)
			}
		}
		if c.Used() != 0 || c.idle.Front() != nil {
			t.Fatalf("%d tokens held after all has ended", c.Used())
		}
	})
}

// check compares the cache with its holdings and returns those not forgotten.
func check(t *testing.T, c *Cache, o *owner, alive []*Holding) (rest []*Holding) {
	t.Helper()
	gone := map[*Holding]bool{}
	for _, h := range o.forgotten {
		gone[h] = true
	}
	sum, idle := 0, 0
	for _, h := range alive {
		if gone[h] {
			continue
		}
		rest = append(rest, h)
		sum += h.Tokens()
		if !h.Pinned() {
			idle++
		}
	}
	listed, free := 0, 0
	for at := c.idle.Front(); at != nil; at = at.Next() {
		listed++
		free += at.Value.Tokens()
	}
	if sum != c.Used() || listed != idle {
		t.Fatalf("says %d tokens and lists %d holdings, want %d and %d", c.Used(), listed, sum, idle)
	}
	if c.capacity > 0 && c.Used() > c.capacity && free > 0 {
		t.Fatalf("holds %d of %d with %d that could go", c.Used(), c.capacity, free)
	}
	return rest
}
