package keys

import (
	"crypto/subtle"
	"sync"
)

// Guard holds the keys that count now. They can be replaced while requests
// are served: those in flight end as they began.
type Guard struct {
	mu       sync.Mutex
	keys     []Key
	inFlight map[Hash]int
}

// NewGuard returns a Guard that knows some keys. Without keys it lets nobody in.
func NewGuard(all ...Key) *Guard {
	return &Guard{keys: all, inFlight: map[Hash]int{}}
}

// Replace makes all the keys that count from now on.
func (g *Guard) Replace(all []Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.keys = all
}

// Find returns the key that a client has sent. It compares with every key, so
// that neither a key's place nor its first differing byte can be learned from
// the time it takes.
func (g *Guard) Find(sent string) (Key, bool) {
	g.mu.Lock()
	all := g.keys
	g.mu.Unlock()
	return find(all, HashOf(sent), sent != "")
}

func find(all []Key, sum Hash, given bool) (Key, bool) {
	found := -1
	for i := range all {
		same := subtle.ConstantTimeCompare(sum[:], all[i].Hash[:])
		found = subtle.ConstantTimeSelect(same, i, found)
	}
	if found < 0 || !given {
		return Key{}, false
	}
	return all[found], true
}

// Begin counts a request of k; false when k has as many in flight as it may.
// Each true is followed by one End.
func (g *Guard) Begin(k Key) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if k.MaxInFlight > 0 && g.inFlight[k.Hash] >= k.MaxInFlight {
		return false
	}
	g.inFlight[k.Hash]++
	return true
}

// End takes a request of k from the count.
func (g *Guard) End(k Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inFlight[k.Hash]--; g.inFlight[k.Hash] <= 0 {
		delete(g.inFlight, k.Hash)
	}
}

// Use is what one key does now.
type Use struct {
	Key
	InFlight int
}

// Uses lists the keys in their order in the file.
func (g *Guard) Uses() []Use {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := make([]Use, 0, len(g.keys))
	for _, k := range g.keys {
		out = append(out, Use{k, g.inFlight[k.Hash]})
	}
	return out
}
