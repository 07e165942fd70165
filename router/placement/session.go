package placement

import "time"

// session is one conversation.
type session struct {
	key    Key
	parent Key
	root   *root
	home   *replica // where its prefix lives; nil before the first turn
	served *replica // where its latest turn went
	// early: home was chosen while a replica of the model did not accept;
	// seated is Placer.arrivals when it was last confirmed; settled is when a
	// conversation that lost its home may move again.
	early   bool
	seated  uint64
	settled time.Time

	tokens int // prompt and answer of the latest turn: what its next prompt starts with
	// counted is the footprint that home's ledger has been given, so that
	// exactly it is taken back.
	counted int
	growth  float64 // tokens added per turn, moving average; 0 before the second turn
	ratio   float64 // engine's prompt tokens per estimated token; 0 before it is known

	lastTokens int // tokens when the latest turn ended; 0 before

	turns    int // dispatched
	spills   int
	inflight int
	waiting  int

	lastSeen time.Time
	endedAt  time.Time // end of the latest turn; zero while none has ended
	finish   finishClass

	holdings []*holding // believed cache contents, one per replica
	hosted   *holding   // believed copy in a host tier
	resident *replica   // admission: whose resident set it is in
	resIndex int        // place in that set

	// table links: newest first, in the active or the dormant list
	prev, next *session
	active     bool
}

// homeNow is the home if its process still lives.
func (s *session) homeNow() *replica {
	if s == nil || s.home == nil || s.home.gone {
		return nil
	}
	return s.home
}

// residentNow is the replica that holds s in its resident set.
func (s *session) residentNow() *replica {
	if s == nil || s.resident == nil || s.resident.gone {
		return nil
	}
	return s.resident
}

// away reports that the latest turn was served away from home.
func (s *session) away() bool {
	return s.served != nil && s.home != nil && s.served != s.home
}

// busy reports that s may not be forgotten.
func (s *session) busy() bool { return s.inflight > 0 || s.waiting > 0 }

// noteBusy tells the resident set of a change of inflight, waiting or endedAt.
func (s *session) noteBusy() {
	if s.resident != nil {
		s.resident.res.update(s)
	}
}

// foot is what s alone takes of a cache: its tokens without the prefix that it
// shares with others.
func (s *session) foot() int {
	shared := 0
	if s.root != nil {
		shared = s.root.tokens
	}
	return max(s.tokens-shared, 0)
}

// forgetPrompt takes back what a turn was believed to add that left nothing in
// an engine, such as a prompt too long for it. The next turn that is answered
// says how long the conversation is.
func (s *session) forgetPrompt() {
	if s.inflight > 0 {
		return // another turn's prompt may be the longest
	}
	s.leaveLedger()
	s.tokens = s.lastTokens
	s.joinLedger()
}

// setHome moves s, with its share of the ledgers, to r (which may be nil).
func (s *session) setHome(r *replica) {
	s.leaveLedger()
	s.home = r
	s.joinLedger()
}

// setServed records where the latest turn went.
func (s *session) setServed(r *replica) {
	s.leaveLedger()
	s.served = r
	s.joinLedger()
}

// leaveLedger takes s out of its home's counts; joinLedger puts it back with
// what it weighs now. Every change of home, served, active or tokens happens
// between the two.
func (s *session) leaveLedger() {
	if s.home != nil {
		s.home.homed--
		if s.active {
			s.home.active--
			s.home.activeTokens -= s.counted
		}
	}
	if s.away() {
		s.served.spilled--
	}
	s.counted = 0
}

func (s *session) joinLedger() {
	if s.home != nil {
		s.home.homed++
		if s.active {
			s.counted = s.foot()
			s.home.active++
			s.home.activeTokens += s.counted
		}
	}
	if s.away() {
		s.served.spilled++
	}
}
