package placement

// root is a prefix that conversations share: system prompt and tools of one
// kind of agent. Its length is learned: it is what engines report as cached on
// first turns of conversations that they have never seen.
type root struct {
	hash     uint64
	tokens   int // 0 until learned
	votes    int // of the majority vote that keeps tokens
	users    int // conversations that point here and turns that run with it
	holdings map[*replica]*holding
}

// rootSlack is how far apart two reports may be and still speak for the same
// length: engines count whole blocks of up to 128 tokens.
const rootSlack = 128

// learn takes one report of cached tokens on a first turn, by majority vote: a
// rare conversation that the engine did know must not move the length.
func (r *root) learn(cached int) {
	switch d := cached - r.tokens; {
	case d >= -rootSlack && d <= rootSlack:
		r.votes = min(r.votes+1, maxRootVotes)
	case r.votes == 0:
		r.tokens, r.votes = cached, 1
	default:
		r.votes--
	}
}

// maxRootVotes bounds how long an old length outlives a change of the agent's
// system prompt.
const maxRootVotes = 8

// use points s at the root with that hash, creating it at need. A conversation
// whose client stops naming its root keeps the one it had.
func (t *table) use(s *session, hash uint64) {
	if s.root != nil && (hash == 0 || s.root.hash == hash) {
		return
	}
	r := t.roots[hash]
	if r == nil {
		r = &root{hash: hash, holdings: map[*replica]*holding{}}
		t.roots[hash] = r
	}
	t.leaveRoot(s)
	s.leaveLedger()
	s.root = r
	s.joinLedger()
	r.users++
}

// leaveRoot takes s from its root.
func (t *table) leaveRoot(s *session) {
	if r := s.root; r != nil {
		s.root = nil
		t.letGo(r)
	}
}

// letGo ends one use of r; with the last one r is forgotten.
func (t *table) letGo(r *root) {
	if r.users--; r.users > 0 {
		return
	}
	for _, h := range r.holdings {
		h.replica.cache.remove(h)
	}
	delete(t.roots, r.hash)
}

// cachedOn is how many tokens of a turn's prompt we believe r need not compute.
func (p *Placer) cachedOn(t *turn, r *replica) int {
	n := 0
	if rt := t.root; rt != nil {
		if h := rt.holdings[r]; h != nil {
			n += min(h.tokens, rt.tokens)
		}
	}
	if !t.Fresh {
		own := t.session.hostedOn(r)
		if h := t.session.holding(r); h != nil {
			own = max(own, h.tokens)
		}
		n += own
	}
	// An engine always computes the last token of a prompt.
	return min(n, max(t.prompt-1, 0))
}
