// Package explain says in words what a status means: what is wrong, how one can see it, what would help. It also says
// when nothing is wrong, and when stickiness cannot help.
//
// Read in this order: Finding and Find here, then the rules, each one question: failures.go (does it run?), memory.go
// (does the working set fit the KV cache?), balance.go (is the load spread?), gpus.go (can the GPUs be used?). A rule is a pure function of
// control.Status; it never repeats a number that it did not get.
package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/lm-warden/warden/supervisor/control"
	"github.com/lm-warden/warden/tui/cell"
)

// Level orders findings.
type Level int

const (
	Fine Level = iota // nothing to do
	Note              // worth knowing
	Warn              // costs time
	Bad               // does not serve
)

// Finding is one thing that somebody should know.
type Finding struct {
	Level    Level
	Model    string   // alias
	Replicas []string // the rows it is about; empty for a whole model
	Short    string   // one line: object, fact
	Cause    string
	Evidence string
	Remedy   string
}

// About reports whether the finding names the replica.
func (f Finding) About(replica string) bool { return slices.Contains(f.Replicas, replica) }

// Waits tells whether requests have been waiting on a replica for long enough to matter. A single status cannot know:
// an engine batches, and for a moment there is always something waiting.
type Waits func(replica string) bool

// rule looks at one model and its replicas.
type rule func(control.Model, []control.Replica, Waits) []Finding

// rules in the order in which equals are told: what does not run explains what is slow.
var rules = []rule{gaveUp, silent, workingSet, preempted, prefixBreaks, lopsided, saturated, stale, queued}

// Find returns what is to be said about a status, worst first; at least one finding. Without waits, whatever waits now
// has waited long enough.
func Find(s control.Status, waits Waits) []Finding {
	if waits == nil {
		waits = func(string) bool { return true }
	}
	out := held(s)
	for _, m := range s.Models {
		mine := replicasOf(s, m.Alias)
		for _, r := range rules {
			for _, f := range r(m, mine, waits) {
				f.Model = m.Alias
				out = append(out, f)
			}
		}
	}
	out = slices.Concat(out, setAside(s), unread(s), throttled(s))
	slices.SortStableFunc(out, func(a, b Finding) int { return cmp.Compare(b.Level, a.Level) })
	if len(out) == 0 || out[0].Level == Fine {
		out = append(out, fine(s))
	}
	return out
}

func replicasOf(s control.Status, alias string) []control.Replica {
	var out []control.Replica
	for _, r := range s.Replicas {
		if r.Model == alias {
			out = append(out, r)
		}
	}
	return out
}

// fine says why there is nothing to say.
func fine(s control.Status) Finding {
	f := Finding{Level: Fine, Cause: "Nothing is wrong."}
	ready := s.Count(control.StateReady)
	f.Short = fmt.Sprintf("%d of %d replicas ready, nothing is wrong", ready, len(s.Replicas))
	if ready < len(s.Replicas) {
		f.Short = fmt.Sprintf("%d of %d replicas ready, the others are on their way", ready, len(s.Replicas))
		f.Cause = "Replicas are starting."
	}
	facts := []string{fmt.Sprintf("%d of %d replicas ready", ready, len(s.Replicas))}
	need, room := 0, 0
	for _, r := range s.Replicas {
		if r.Engine != nil && r.Engine.KVCapacityTokens > 0 {
			need, room = need+r.SessionTokens2m, room+r.Engine.KVCapacityTokens
		}
	}
	if room > 0 {
		facts = append(facts, fmt.Sprintf("the sessions of the last 2 min need %s of %s KV tokens", about(need), about(room)))
	}
	if h := s.Totals.HitRate60s; h != nil {
		facts = append(facts, "prefix hits "+cell.Percent(*h))
	}
	f.Evidence = strings.Join(facts, ", ") + "."
	f.Remedy = "None needed."
	switch {
	case need > room && room > 0:
		f.Remedy = "None needed while the hits stay high: those of the sessions that pause longest give way first."
	case need > 0 && room > 0:
		f.Remedy = fmt.Sprintf("None needed; there is room for about %s tokens of further conversations.", about(room-need))
	}
	return f
}

// about writes a token count the way people say it.
func about(tokens int) string { return cell.Count(float64(tokens)) }

// names joins replica ids: "r0", "r0 and r2", "r0, r1 and r2".
func names(ids []string) string {
	if len(ids) < 2 {
		return strings.Join(ids, "")
	}
	return strings.Join(ids[:len(ids)-1], ", ") + " and " + ids[len(ids)-1]
}

// plural chooses the form of a verb or noun.
func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// serving are the replicas whose figures mean something: ready, with a scrape that is not stale.
func serving(rs []control.Replica) []control.Replica {
	var out []control.Replica
	for _, r := range rs {
		if r.State == control.StateReady && r.Engine != nil && !r.Engine.Stale {
			out = append(out, r)
		}
	}
	return out
}
