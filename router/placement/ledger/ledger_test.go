package ledger

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/lm-warden/warden/router/placement/shadow"
)

var start = time.Unix(1_000_000, 0)

func key(n int) (k Key) {
	binary.BigEndian.PutUint16(k[:], uint16(n)+1)
	return k
}

// open is a replica with a cache of so many tokens.
func open(id ReplicaID, capacity int) *Replica {
	r := &Replica{}
	r.Update(Spec{ID: id, Generation: 1, Accepting: true, KVCapacityTokens: capacity, HostKVTokens: 2 * capacity})
	return r
}

func TestRootLengthIsAMajorityVote(t *testing.T) {
	r, on := newRoot(1), open("r0", 36_000)
	h := r.pin(on)
	for _, cached := range []int{3488, 3488, 3472, 9000, 3488} {
		r.Learn(cached, on)
	}
	if r.Tokens() != 3488 {
		t.Errorf("length %d after one odd report", r.Tokens())
	}
	for range 20 {
		r.Learn(5008, on)
	}
	if r.Tokens() != 5008 || h.Tokens() != 5008 || on.Cached() != 5008 {
		t.Errorf("length %d, held %d of %d; the system prompt has 5,008 tokens by now", r.Tokens(), h.Tokens(), on.Cached())
	}
}

// A title, say, waits so long that all who share its prefix are forgotten, and
// another conversation begins to share it.
func TestARootForgottenMeanwhileDoesNotCountTwice(t *testing.T) {
	table, r := NewTable(), open("r0", 36_000)
	table.Use(table.Add(key(1), start), 9)
	waiting := table.Root(9)
	table.Evict(1)
	if table.Root(9) != nil {
		t.Fatal("a prefix that nobody uses is still known")
	}
	second := table.Add(key(2), start)
	table.Use(second, 9)
	root, h := table.PinRoot(waiting, r)
	if root != second.Root() {
		t.Error("the waiting turn runs with a prefix of its own")
	}
	table.UnpinRoot(root, h)
	if table.Root(9) != second.Root() {
		t.Error("the end of the turn has forgotten a prefix that is in use")
	}
	table.Evict(1)
	root, h = table.PinRoot(waiting, r) // nobody else has begun it anew
	if table.Root(9) != root {
		t.Error("the prefix of a running turn is not known")
	}
	table.UnpinRoot(root, h)
	if err := Audit(table, []*Replica{r}); err != nil {
		t.Error(err)
	}
}

func TestOnlyAFewCopiesAreRemembered(t *testing.T) {
	table := NewTable()
	s := table.Add(key(1), start)
	s.SetTokens(100)
	var set []*Replica
	for i := range 6 {
		r := open(ReplicaID(rune('a'+i)), 1000)
		set = append(set, r)
		s.Pin(r).Unpin(100)
	}
	copies := 0
	for _, r := range set {
		if s.CachedOn(r) == 100 {
			copies++
		}
	}
	if copies != maxHoldings || s.CachedOn(set[0]) != 0 || s.CachedOn(set[5]) != 100 {
		t.Errorf("%d copies are remembered, want the latest %d", copies, maxHoldings)
	}
	s.Store(set[0], 80)
	s.Store(set[1], 90)
	if s.HostedOn(set[0]) != 0 || s.HostedOn(set[1]) != 90 || s.CachedOn(set[1]) != 90 {
		t.Error("more than the latest copy in a host tier is remembered")
	}
	set[5].End()
	if s.CachedOn(set[5]) != 0 {
		t.Error("a copy outlives its process")
	}
	table.Evict(1)
	if err := Audit(table, set); err != nil {
		t.Error(err)
	}
}

// An audit that finds nothing must be able to find something.
func TestAuditNoticesAWrongCount(t *testing.T) {
	fresh := func() (*Table, *Replica, *Session) {
		table, r := NewTable(), open("r0", 1000)
		s := table.Add(key(1), start)
		table.Use(s, 1)
		s.SetTokens(100)
		s.SetHome(r)
		s.SetServed(r)
		s.Pin(r).Unpin(100)
		r.Admit(s, 100)
		if err := Audit(table, []*Replica{r}); err != nil {
			t.Fatal(err)
		}
		return table, r, s
	}
	for name, spoil := range map[string]func(*Replica, *Session){
		"homes":           func(r *Replica, _ *Session) { r.homed++ },
		"tokens of homes": func(_ *Replica, s *Session) { s.counted-- },
		"homes elsewhere": func(_ *Replica, s *Session) { s.home = nil },
		"held":            func(r *Replica, _ *Session) { r.Finish() },
		"cache":           func(_ *Replica, s *Session) { s.holdings = nil },
		"resident":        func(_ *Replica, s *Session) { s.endedAt = start },
		"residents":       func(r *Replica, _ *Session) { r.Residents.foot++ },
		"weights":         func(r *Replica, _ *Session) { r.Residents.members[0].weight = 0 },
		"shared prefixes": func(r *Replica, _ *Session) { r.Residents.roots = nil },
	} {
		table, r, s := fresh()
		spoil(r, s)
		if Audit(table, []*Replica{r}) == nil {
			t.Errorf("%s: a wrong count was not noticed", name)
		}
	}
}

// FuzzLedger does what placement does to a ledger, in any order, and has it
// audited after each step.
func FuzzLedger(f *testing.F) {
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, 9))
		b := make([]byte, 600)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, program []byte) {
		b := &book{table: NewTable(), now: start}
		for i := range 3 {
			b.set = append(b.set, open(ReplicaID(rune('a'+i)), 500))
		}
		for ; len(program) >= 3; program = program[3:] {
			b.step(program[0], int(program[1]), int(program[2]))
			if err := Audit(b.table, b.set); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// book is a ledger with the turns that run.
type book struct {
	table *Table
	set   []*Replica
	turns []running
	now   time.Time
}

type running struct {
	s         *Session
	r         *Replica
	root      *Root
	h, shared *shadow.Holding // of the conversation and of its root
}

func (b *book) step(op byte, n, m int) {
	b.now = b.now.Add(time.Duration(m) * 100 * time.Millisecond)
	r := b.set[n%3]
	s := b.table.Get(key(m % 8))
	if s == nil {
		b.table.Evict(6)
		s = b.table.Add(key(m%8), b.now)
	}
	b.table.Use(s, uint64(n%4))
	switch op % 10 {
	case 0, 1, 2:
		b.begin(s, r, 4*m)
	case 3, 4, 5:
		if len(b.turns) > 0 {
			b.end(n%len(b.turns), 4*m)
		}
	case 6:
		b.table.Expire(b.now, 10*time.Second, 30*time.Second)
	case 7, 8:
		r.End()
		b.set[n%3] = open(r.ID, 4*m)
	case 9:
		r.Residents.Weigh(b.now, func(m *Resident) (float64, bool) {
			if m.Busy() {
				return 1, false
			}
			return float64(n%5) / 4, n%2 == 0
		})
	}
}

func (b *book) begin(s *Session, r *Replica, tokens int) {
	s.Begin()
	b.table.Touch(s, b.now)
	s.SetTokens(tokens)
	if s.Home() == nil || s.HomeNow() == nil {
		s.SetHome(r)
	}
	s.SetServed(r)
	r.Begin(tokens)
	turn := running{s: s, r: r}
	turn.root, turn.shared = b.table.PinRoot(s.Root(), r)
	turn.h = s.Pin(r)
	b.turns = append(b.turns, turn)
	if old := s.Resident(); old != nil {
		old.Release(s)
	}
	r.Admit(s, s.Foot())
}

func (b *book) end(i, tokens int) {
	turn := b.turns[i]
	b.turns = append(b.turns[:i], b.turns[i+1:]...)
	turn.r.Finish()
	b.table.Touch(turn.s, b.now)
	turn.s.End(b.now, ClassOf("stop"))
	turn.s.SetTokens(tokens)
	turn.s.Store(turn.r, tokens)
	if i%2 == 0 {
		turn.root.Learn(tokens, turn.r)
	}
	turn.h.Unpin(turn.s.Foot())
	b.table.UnpinRoot(turn.root, turn.shared)
	if turn.s.Resident() == turn.r {
		turn.r.Residents.Resize(turn.s, turn.s.Foot())
	}
}
