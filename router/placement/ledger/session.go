package ledger

import (
	"time"

	"github.com/lm-warden/warden/router/placement/list"
	"github.com/lm-warden/warden/router/placement/shadow"
)

// Session is one conversation. Its exported fields are its owner's to set; the
// others are part of some count and change by methods only.
type Session struct {
	Parent Key
	Seat   Seat
	// Growth is the tokens added per turn, a moving average; 0 before the second
	// turn. Ratio is the engine's prompt tokens per estimated token; 0 before it
	// is known.
	Growth, Ratio float64
	// LastTokens is the tokens when the latest turn ended; 0 before.
	LastTokens int
	// Spills counts turns that went elsewhere while home stayed.
	Spills int

	key    Key
	root   *Root
	home   *Replica // where its prefix lives; nil before the first turn
	served *Replica // where its latest turn went

	tokens int // prompt and answer of the latest turn: what its next prompt starts with
	// counted is the footprint that home's account has been given, so that
	// exactly it is taken back.
	counted int

	turns    int // dispatched
	inFlight int
	waiting  int

	lastSeen time.Time
	endedAt  time.Time // end of the latest turn; zero while none has ended
	finish   FinishClass

	holdings []*shadow.Holding // believed cache contents, one per replica
	hosted   *shadow.Holding   // believed copy in a host tier
	resident *Replica          // whose resident set it is in
	resIndex int               // place in that set

	place  list.Node[*Session] // in the table's active or dormant list
	active bool
}

// Seat is a home as a choice among the replicas there were.
type Seat struct {
	// Early: the home was chosen while a replica of the model did not accept.
	// Confirmed is how many replicas had arrived when it last was. Settled is
	// when a conversation that lost its home may move again.
	Early     bool
	Confirmed uint64
	Settled   time.Time
}

// Key names it.
func (s *Session) Key() Key { return s.key }

// Root is the prefix that it shares with others, nil when it has none.
func (s *Session) Root() *Root { return s.root }

// Home is where its prefix lives, also when that process has ended; nil before
// the first turn.
func (s *Session) Home() *Replica { return s.home }

// HomeNow is the home if its process still lives.
func (s *Session) HomeNow() *Replica {
	if s == nil || s.home == nil || s.home.gone {
		return nil
	}
	return s.home
}

// Served is where its latest turn went, nil before the first one.
func (s *Session) Served() *Replica { return s.served }

// Resident is the replica that has promised it room, nil when none has.
func (s *Session) Resident() *Replica {
	if s == nil {
		return nil
	}
	return s.resident
}

// Tokens is what its next prompt starts with.
func (s *Session) Tokens() int { return s.tokens }

// Counted is the footprint that its home's account counts.
func (s *Session) Counted() int { return s.counted }

// Turns is how many have been dispatched, InFlight how many of them have not
// ended, Waiting how many are in the queue.
func (s *Session) Turns() int { return s.turns }

// InFlight is described at Turns.
func (s *Session) InFlight() int { return s.inFlight }

// Waiting is described at Turns.
func (s *Session) Waiting() int { return s.waiting }

// LastSeen is when it was last touched.
func (s *Session) LastSeen() time.Time { return s.lastSeen }

// EndedAt is the end of its latest turn; zero while none has ended.
func (s *Session) EndedAt() time.Time { return s.endedAt }

// Finish is how its latest turn ended.
func (s *Session) Finish() FinishClass { return s.finish }

// Busy reports that s may not be forgotten.
func (s *Session) Busy() bool { return s.inFlight > 0 || s.waiting > 0 }

// away reports that the latest turn was served away from home.
func (s *Session) away() bool {
	return s.served != nil && s.home != nil && s.served != s.home
}

// Foot is what s alone takes of a cache: its tokens without the prefix that it
// shares with others.
func (s *Session) Foot() int { return s.FootOf(s.tokens) }

// FootOf is what it would take with so many tokens.
func (s *Session) FootOf(tokens int) int { return max(tokens-s.root.Tokens(), 0) }

// Wait counts n more turns in the queue, fewer when n is negative.
func (s *Session) Wait(n int) {
	s.waiting += n
	s.noteBusy()
}

// Begin counts a turn that has been dispatched.
func (s *Session) Begin() {
	s.turns++
	s.inFlight++
	s.noteBusy()
}

// End counts the end of a dispatched turn.
func (s *Session) End(now time.Time, finish FinishClass) {
	s.inFlight--
	s.endedAt, s.finish = now, finish
	s.noteBusy()
}

// Recall is what was known of s before a restart: its turns, the latest of which
// had ended by then, its size, and that it lives on r.
func (s *Session) Recall(turns, tokens int, r *Replica) {
	s.turns, s.LastTokens, s.endedAt = turns, tokens, s.lastSeen
	s.SetTokens(tokens)
	s.SetHome(r)
	s.SetServed(r)
	s.Pin(r).Unpin(s.Foot())
}

// noteBusy tells the resident set of a change of inFlight, waiting or endedAt.
func (s *Session) noteBusy() {
	if s.resident != nil {
		s.resident.Residents.update(s)
	}
}

// SetHome moves s, with its share of the accounts, to r.
func (s *Session) SetHome(r *Replica) {
	s.leaveAccounts()
	s.home = r
	s.joinAccounts()
}

// SetServed records where the latest turn went.
func (s *Session) SetServed(r *Replica) {
	s.leaveAccounts()
	s.served = r
	s.joinAccounts()
}

// SetTokens gives s another length.
func (s *Session) SetTokens(n int) {
	s.leaveAccounts()
	s.tokens = n
	s.joinAccounts()
}

// ForgetPrompt takes back what a turn was believed to add that left nothing in
// an engine, such as a prompt too long for it. The next turn that is answered
// says how long the conversation is.
func (s *Session) ForgetPrompt() {
	if s.inFlight > 0 {
		return // another turn's prompt may be the longest
	}
	s.SetTokens(s.LastTokens)
}

// leaveAccounts takes s out of its home's counts; joinAccounts puts it back with
// what it weighs now. Every change of home, served, active, root or tokens
// happens between the two.
func (s *Session) leaveAccounts() {
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

func (s *Session) joinAccounts() {
	if s.home != nil {
		s.home.homed++
		if s.active {
			s.counted = s.Foot()
			s.home.active++
			s.home.activeTokens += s.counted
		}
	}
	if s.away() {
		s.served.spilled++
	}
}
