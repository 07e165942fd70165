package state

import (
	"maps"
	"time"
)

// wish is what was last ordered of a model's affinity. It counts until a status is newer than its outcome: a second
// press within that second means the opposite of the first, not of what the screen still shows.
type wish struct {
	on    bool
	under int       // orders that have no outcome yet
	done  time.Time // of the latest outcome
}

func (s State) toggleAffinity() (State, Intent) {
	r, ok := s.Current()
	if !ok {
		return s, Intent{}
	}
	m, ok := ModelOf(s.Shown().Status, r)
	if !ok {
		return s, Intent{}
	}
	w, ordered := s.wishes[m.Alias]
	if !ordered {
		w.on = m.Affinity
	}
	w.on = !w.on
	w.under++
	if w.on {
		return s.wished(m.Alias, w), Intent{Do: AffinityOn, Target: m.Alias}
	}
	return s.wished(m.Alias, w), Intent{Do: AffinityOff, Target: m.Alias}
}

// wished is a copy with one wish replaced: states share the map.
func (s State) wished(model string, w wish) State {
	s.wishes = maps.Clone(s.wishes)
	if s.wishes == nil {
		s.wishes = map[string]wish{}
	}
	s.wishes[model] = w
	return s
}

// granted notes the outcome of an order. A refused one leaves nobody knows what, until the next status.
func (s State) granted(m Done) State {
	w, ordered := s.wishes[m.Of.Target]
	if !ordered || m.Of.Do != AffinityOn && m.Of.Do != AffinityOff {
		return s
	}
	w.under--
	w.done = m.At
	if m.Err != nil {
		w.on = m.Of.Do != AffinityOn
	}
	return s.wished(m.Of.Target, w)
}

// seen drops the wishes that a status of that moment tells the outcome of.
func (s State) seen(now time.Time) State {
	if len(s.wishes) == 0 {
		return s
	}
	s.wishes = maps.Clone(s.wishes)
	maps.DeleteFunc(s.wishes, func(_ string, w wish) bool { return w.under == 0 && now.After(w.done) })
	return s
}
