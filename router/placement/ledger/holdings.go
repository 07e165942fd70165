package ledger

import "github.com/lm-warden/warden/router/placement/shadow"

// maxHoldings bounds the copies remembered of one conversation. A conversation
// that spilled has two; more are leftovers of failovers.
const maxHoldings = 4

// CachedOn is how many tokens of s, the shared prefix not counted, we believe
// that r need not compute: in its KV cache, or in its host tier.
func (s *Session) CachedOn(r *Replica) int {
	if s == nil {
		return 0
	}
	n := s.HostedOn(r)
	if h := s.holding(r); h != nil {
		n = max(n, h.Tokens())
	}
	return n
}

// HostedOn is how many tokens of s the host tier of r holds, the shared prefix
// not counted.
func (s *Session) HostedOn(r *Replica) int {
	if s == nil || s.hosted == nil || s.hosted.Cache() != &r.host {
		return 0
	}
	return s.hosted.Tokens()
}

// Hosted reports that some host tier holds a copy of s.
func (s *Session) Hosted() bool { return s.hosted != nil }

// Pin notes that a running request of s uses r's cache. It ends with Unpin.
func (s *Session) Pin(r *Replica) *shadow.Holding {
	h := s.holding(r)
	if h == nil {
		h = s.newHolding(r)
	}
	h.Pin(s.Foot())
	return h
}

// holding returns s's holding on r, or nil.
func (s *Session) holding(r *Replica) *shadow.Holding {
	for _, h := range s.holdings {
		if h.Cache() == &r.cache {
			return h
		}
	}
	return nil
}

// newHolding starts a holding of s on r. The oldest copies elsewhere are
// forgotten when there are too many.
func (s *Session) newHolding(r *Replica) *shadow.Holding {
	for i := 0; i < len(s.holdings) && len(s.holdings) >= maxHoldings; {
		if s.holdings[i].Pinned() {
			i++
			continue
		}
		s.holdings[i].Drop()
	}
	h := r.cache.New(s)
	s.holdings = append(s.holdings, h)
	return h
}

// Store notes that r has copied tokens of s to its host tier, where it has one.
// Only one copy is remembered.
func (s *Session) Store(r *Replica, tokens int) {
	if r.gone || r.HostKVTokens == 0 {
		return
	}
	if s.hosted != nil && s.hosted.Cache() != &r.host {
		s.hosted.Drop()
	}
	if s.hosted == nil {
		s.hosted = r.host.New(s)
	}
	s.hosted.Pin(0)
	s.hosted.Unpin(tokens)
}

// Forget implements shadow.Owner.
func (s *Session) Forget(h *shadow.Holding) {
	if h == s.hosted {
		s.hosted = nil
		return
	}
	for i, o := range s.holdings {
		if o == h {
			s.holdings = append(s.holdings[:i], s.holdings[i+1:]...)
			return
		}
	}
}

// dropHoldings forgets what is cached of s.
func (s *Session) dropHoldings() {
	for len(s.holdings) > 0 {
		s.holdings[len(s.holdings)-1].Drop()
	}
	if s.hosted != nil {
		s.hosted.Drop()
	}
}
