package placement

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/lm-warden/warden/router/placement/shadow"
)

// FuzzStep feeds random events. The rig checks after each that held counts
// equal its own, that nothing goes to a replica that does not accept, and that
// no turn ends twice; at the end every turn must have ended or be known.
func FuzzStep(f *testing.F) {
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 1))
		b := make([]byte, 600)
		for i := 0; i+8 <= len(b); i += 8 {
			binary.LittleEndian.PutUint64(b[i:], rng.Uint64())
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, program []byte) {
		if len(program) > 4000 {
			return
		}
		runProgram(t, program)
	})
}

func TestRandomPrograms(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 7))
		b := make([]byte, 2000)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		runProgram(t, b)
	}
}

type program struct {
	*rig
	bytes []byte
	set   []Replica
}

func (m *program) next(n int) int {
	if len(m.bytes) == 0 {
		return 0
	}
	b := m.bytes[0]
	m.bytes = m.bytes[1:]
	return int(b) % n
}

func runProgram(t *testing.T, b []byte) {
	t.Helper()
	policies := []string{PolicyBalance, PolicyAffinity, PolicyAdmission}
	m := &program{bytes: b, set: fleet(3)}
	cfg := Config{
		Policy: policies[m.next(3)], MaxSessions: 12, MaxQueue: 20,
		MaxWait: 20 * time.Second, SessionTTL: 5 * time.Minute,
	}
	for i := range m.set {
		m.set[i].MaxNumSeqs = 4
		m.set[i].KVCapacityTokens = 5000 * m.next(4)
	}
	m.rig = newRig(t, cfg, m.set...)
	for len(m.bytes) > 0 {
		m.one(&cfg, policies)
	}
	m.drain()
}

func (m *program) one(cfg *Config, policies []string) {
	m.t.Helper()
	switch op := m.next(16); op {
	case 0, 1, 2, 3, 4:
		m.arrive(m.turnFromBytes())
	case 5, 6, 7, 8:
		if id, ok := m.anyHeld(); ok {
			m.finish(id, Outcome{
				PromptTokens: 40 * m.next(250), CachedTokens: 40*m.next(250) - 1,
				OutputTokens: 10 * m.next(100), FinishClass: []string{"stop", "tool_calls", "length"}[m.next(3)],
				Failed: m.next(10) == 0, Aborted: m.next(10) == 0,
			})
		}
	case 9:
		if id, ok := m.anyHeld(); ok {
			m.step(FirstByte{id})
		}
	case 10:
		if id, ok := m.anyHeld(); ok {
			m.failAttempt(id)
		}
	case 11:
		m.cancelAny()
	case 12:
		r := &m.set[m.next(3)]
		switch m.next(5) {
		case 0:
			r.Generation++
		case 1:
			r.Suspect = !r.Suspect
		case 2:
			r.KVCapacityTokens = 5000 * m.next(4)
		default:
			r.Accepting = !r.Accepting
		}
		from := m.next(2)
		m.step(Replicas{m.set[from:]})
		if from == 1 { // removed: its process has ended
			m.set[0].Generation++
		}
	case 13:
		cfg.Policy, cfg.SpillLimit = policies[m.next(3)], m.next(4)
		m.step(Configure{*cfg})
	case 14:
		m.advance(time.Duration(m.next(256)) * 100 * time.Millisecond)
		m.step(Tick{})
	case 15:
		m.step(Stats{m.set[m.next(3)].ID, EngineView{At: m.now, KVUsed: float64(m.next(100)) / 100}})
	}
}

func (m *program) turnFromBytes() Turn {
	in := Turn{
		Key: key(m.next(20)), Root: uint64(m.next(3)), PromptTokens: 40 * m.next(250),
		Class: []string{ClassMain, ClassSubagent, ClassAuxiliary, ClassCompaction}[m.next(4)],
		Fresh: m.next(9) == 0,
	}
	switch m.next(8) {
	case 0:
		in.Key = Key{}
	case 1:
		in.Inherit = m.set[m.next(3)].ID
	case 2:
		in.Pinned = m.set[m.next(3)].ID
	case 3:
		in.Parent = key(m.next(20))
	}
	return in
}

// anyHeld picks a held turn in a way that depends on the program only.
func (m *program) anyHeld() (uint64, bool) {
	n := m.next(256)
	for i := range m.nextID {
		id := (uint64(n)+i)%m.nextID + 1
		if _, ok := m.held[id]; ok {
			return id, true
		}
	}
	return 0, false
}

func (m *program) failAttempt(id uint64) {
	d := m.held[id]
	delete(m.held, id)
	actions := m.p.Step(Retry{id, d.Replica}, m.now)
	for _, a := range actions {
		m.note(a)
	}
	m.check()
}

func (m *program) cancelAny() {
	n := m.next(256)
	for i := range m.nextID {
		id := (uint64(n)+i)%m.nextID + 1
		if _, held := m.held[id]; held || m.waiting[id] {
			m.cancel(id)
			return
		}
	}
}

// drain ends everything and expects a clean book.
func (m *program) drain() {
	m.t.Helper()
	for range 5000 {
		if id, ok := m.anyHeld(); ok {
			m.finish(id, Outcome{CachedTokens: -1})
			continue
		}
		if len(m.waiting) == 0 {
			break
		}
		if !m.wake.After(m.now) {
			m.t.Fatalf("%d turns wait and nothing would wake the Placer: %+v", len(m.waiting), m.p.View(m.now).Queue)
		}
		m.now = m.wake
		m.step(Tick{})
	}
	for id := uint64(1); id <= m.nextID; id++ {
		if m.ended[id] == "" {
			m.t.Fatalf("turn %d never ended", id)
		}
	}
	// While all were busy the table may have grown; the next one trims it.
	m.cancel(m.arrive(Turn{Key: key(100)}))
	m.checkClean()
}

func (m *program) checkClean() {
	m.t.Helper()
	known := 0
	for _, r := range m.p.replicas {
		v := m.p.viewReplica(r)
		known += v.Sticky
		if v.Held != 0 || v.PrefillTokens != 0 {
			m.t.Fatalf("%s at the end: held %d, prefill %d", v.ID, v.Held, v.PrefillTokens)
		}
		idle := 0
		r.Displaced(1e9, 1e9, func(_ *shadow.Holding, tokens int) { idle += tokens })
		if v.CapacityTokens > 0 && idle != v.CachedTokens {
			m.t.Fatalf("%s: %d of %d cached tokens are still pinned", v.ID, v.CachedTokens-idle, v.CachedTokens)
		}
	}
	if n := m.p.sessions.Len(); known > n || n > 12 {
		m.t.Fatalf("%d homes of %d known conversations, at most 12 allowed", known, n)
	}
}
