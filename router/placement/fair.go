package placement

// Fair waiting between users. With one API key the queue is strict first in,
// first out. With several, the next turn is the first of the key that has been
// given the fewest tokens lately: start-time fair queueing with equal weights.
// A key that floods the queue delays itself, and one that comes back after a
// pause has saved up nothing.

// fairness counts the tokens given to each API key, beyond what the one that
// was given least has.
type fairness struct {
	given map[string]float64
	// level is the least count of those who want service: where newcomers start.
	level float64
}

// serve notes that a turn of key begins, which will take tokens of work, while
// others wait. Those count: a turn that did not have to wait, its conversation
// having a place already, must not lift everybody to where its key stands.
func (f *fairness) serve(key string, tokens int, waiting map[string]int) {
	level := f.start(key)
	for k := range waiting {
		level = min(level, f.start(k))
	}
	f.level = max(f.level, level)
	f.add(key, tokens)
	for k, n := range f.given {
		if n <= f.level {
			delete(f.given, k) // level with newcomers: nothing to remember
		}
	}
}

// add charges key for work that came after a turn began: its answer.
func (f *fairness) add(key string, tokens int) {
	if f.given == nil {
		f.given = map[string]float64{}
	}
	f.given[key] = f.start(key) + float64(tokens)
}

// start is where key stands.
func (f *fairness) start(key string) float64 { return max(f.given[key], f.level) }

// order returns the waiting turns in the order of service. Within a key that is
// their order in the queue.
func (p *Placer) order() []*turn {
	turns := p.queue.turns
	if len(p.queue.keys) < 2 {
		return turns
	}
	byKey := map[string][]*turn{}
	var keys []string
	for _, t := range turns {
		if byKey[t.APIKey] == nil {
			keys = append(keys, t.APIKey)
		}
		byKey[t.APIKey] = append(byKey[t.APIKey], t)
	}
	at := make(map[string]float64, len(keys))
	for _, k := range keys {
		at[k] = p.fair.start(k)
	}
	out := make([]*turn, 0, len(turns))
	for len(out) < len(turns) {
		next := ""
		for _, k := range keys {
			waiting := byKey[k]
			if len(waiting) == 0 {
				continue
			}
			if len(byKey[next]) == 0 || at[k] < at[next] || (at[k] == at[next] && waiting[0].rank.Before(byKey[next][0].rank)) {
				next = k
			}
		}
		t := byKey[next][0]
		byKey[next] = byKey[next][1:]
		at[next] += float64(t.prompt)
		out = append(out, t)
	}
	return out
}
