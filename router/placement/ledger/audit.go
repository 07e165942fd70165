package ledger

import (
	"fmt"
	"math"

	"github.com/lm-warden/warden/router/placement/shadow"
)

// Audit counts everything anew and compares it with what t and the accounts of
// all live replicas say. It is for tests: it looks at everything there is.
func Audit(t *Table, replicas []*Replica) error {
	for _, r := range replicas {
		if err := auditHomes(t, r); err != nil {
			return fmt.Errorf("%s: %w", r.ID, err)
		}
		if err := auditCaches(t, r); err != nil {
			return fmt.Errorf("%s: %w", r.ID, err)
		}
		if err := auditResidents(r); err != nil {
			return fmt.Errorf("%s: %w", r.ID, err)
		}
	}
	return nil
}

// auditHomes counts the conversations that live on r.
func auditHomes(t *Table, r *Replica) error {
	homed, active, tokens, spilled := 0, 0, 0, 0
	for s := range t.Latest() {
		if s.home == r {
			homed++
			if s.active {
				active++
				tokens += s.counted
			}
		}
		if s.served == r && s.away() {
			spilled++
		}
	}
	if homed != r.homed || active != r.active || tokens != r.activeTokens || spilled != r.spilled {
		return fmt.Errorf("homed %d, active %d with %d tokens, spilled %d; the account says %d, %d with %d, %d",
			homed, active, tokens, spilled, r.homed, r.active, r.activeTokens, r.spilled)
	}
	if r.held < 0 || r.Residents.loose < 0 {
		return fmt.Errorf("%d turns held, %d tokens of them outside the set", r.held, r.Residents.loose)
	}
	return nil
}

// auditCaches sums what owners have in r's caches.
func auditCaches(t *Table, r *Replica) error {
	sum, hosted := 0, 0
	for s := range t.Latest() {
		if h := s.holding(r); h != nil {
			sum += h.Tokens()
		}
		hosted += s.HostedOn(r)
	}
	for _, root := range t.roots {
		if h := root.holdings[&r.cache]; h != nil {
			sum += h.Tokens()
		}
	}
	if sum != r.cache.Used() || hosted != r.host.Used() {
		return fmt.Errorf("owners have %d and %d tokens in caches that say %d and %d", sum, hosted, r.cache.Used(), r.host.Used())
	}
	idle := 0
	r.cache.Displaced(0, math.MaxInt, func(*shadow.Holding, int) { idle++ })
	if idle > 0 {
		return fmt.Errorf("%d tokens in a cache of %d, with %d holdings that could go", sum, r.Capacity(), idle)
	}
	return nil
}

// auditResidents sums the residents of r.
func auditResidents(r *Replica) error {
	rs, foot, occupied, firm := &r.Residents, 0, 0.0, 0
	for i := range rs.members {
		m := &rs.members[i]
		s := m.session
		if s.resident != r || s.resIndex != i || m.busy != (s.Busy() || s.endedAt.IsZero()) {
			return fmt.Errorf("resident %d and its conversation %s disagree", i, s.key)
		}
		foot += m.foot
		occupied += m.need()
		if m.weight >= LikelyGone {
			firm++
		}
	}
	if foot != rs.foot || firm != rs.firm || math.Abs(occupied-rs.occupied) > 1 {
		return fmt.Errorf("residents need %.0f of %d tokens, %d are firm; the sums say %.0f of %d, %d",
			occupied, foot, firm, rs.occupied, rs.foot, rs.firm)
	}
	users := 0
	for _, u := range rs.roots {
		users += u.residents
	}
	if users != len(rs.members) {
		return fmt.Errorf("%d residents are counted with a shared prefix, of %d", users, len(rs.members))
	}
	return nil
}
