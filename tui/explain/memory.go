package explain

import (
	"fmt"
	"strings"

	"github.com/lm-warden/warden/supervisor/control"
	"github.com/lm-warden/warden/supervisor/control/advice"
	"github.com/lm-warden/warden/tui/cell"
)

const (
	// KVHigh and KVFull are the shares of KV blocks in use by running requests above which a replica is marked;
	// above KVFull hardly a block is left for prefixes.
	KVHigh = 0.70
	KVFull = 0.90

	// goodHitRate is a share of hits that a conversation of several turns reaches when its prefix stayed: the
	// shared system prompt alone gives about a third, five turns of six more than four fifths.
	goodHitRate = 0.75

	// brokenShare is below what even a shared system prompt gives from the third turn on.
	brokenShare = 0.30
	brokenTurns = 3
)

// workingSet finds replicas whose sessions need more KV tokens than there are, and those whose running requests take
// all of it.
func workingSet(m control.Model, rs []control.Replica, _ Waits) []Finding {
	live := serving(rs)
	need, room := 0, 0
	for _, r := range live {
		need, room = need+r.SessionTokens2m, room+r.Engine.KVCapacityTokens
	}
	var out []Finding
	for _, r := range live {
		e := r.Engine
		switch {
		case m.Policy == control.PolicyAdmission && need <= room:
			// Those of the last 2 min that have ended count, too; the others find room by themselves.
		case e.KVCapacityTokens > 0 && r.SessionTokens2m > e.KVCapacityTokens && (hitsBelow(e, goodHitRate) || e.KVUsed >= KVFull):
			sessions := fmt.Sprintf("its %d %s", r.Sessions2m, plural(r.Sessions2m, "session of the last 2 min needs", "sessions of the last 2 min need"))
			out = append(out, Finding{
				Level: Warn, Replicas: []string{r.ID},
				Short: fmt.Sprintf("%s: %d %s ~%s tokens, KV cache holds ~%s", r.ID, r.Sessions2m,
					plural(r.Sessions2m, "session in 2 min needs", "sessions in 2 min need"), about(r.SessionTokens2m), about(e.KVCapacityTokens)),
				Cause: fmt.Sprintf("%s: %s about %s tokens, its KV cache holds about %s: %s.",
					r.ID, sessions, about(r.SessionTokens2m), about(e.KVCapacityTokens), tooMany(m)),
				Evidence: engineFacts(r),
				Remedy:   workingSetRemedy(m, live, need, room),
			})
		case e.KVUsed >= KVFull:
			out = append(out, Finding{
				Level: Warn, Replicas: []string{r.ID},
				Short:    r.ID + ": KV cache " + cell.Percent(e.KVUsed) + ", prefixes are being evicted" + waitingSuffix(e),
				Cause:    fmt.Sprintf("%s: its running requests hold %s of the KV cache, so hardly a prefix can stay.", r.ID, cell.Percent(e.KVUsed)),
				Evidence: engineFacts(r),
				Remedy:   "Fewer or shorter requests at once on it: a lower spill limit (`warden spill " + m.Alias + " N`), or a smaller KV type (`-- --kv-cache-dtype fp8`).",
			})
		}
	}
	return out
}

// tooMany is what becomes of sessions that do not fit.
func tooMany(m control.Model) string {
	if m.Policy == control.PolicyAdmission {
		return "as many as fit keep their prefixes, the others wait for a place"
	}
	return "prefixes evict each other"
}

// workingSetRemedy depends on whether the whole model has room, or only this replica lacks it.
func workingSetRemedy(m control.Model, live []control.Replica, need, room int) string {
	switch {
	case need <= room:
		return "The other replicas have room: a lower spill limit spreads sooner (`warden spill " + m.Alias + " N`, now " + fmt.Sprint(m.SpillLimit) + ")."
	case m.Policy == control.PolicyAdmission:
		return fmt.Sprintf("All sessions need ~%s, all replicas hold ~%s. Nobody has to wait with %s. More: `warden advise`.",
			about(need), about(room), advice.Briefly(m, advice.Now(live)))
	case m.Affinity:
		return fmt.Sprintf("Affinity cannot help at this load: all sessions need ~%s, all replicas hold ~%s. Try %s, or `warden affinity off %s`. More: `warden advise`.",
			about(need), about(room), advice.Briefly(m, advice.Now(live)), m.Alias)
	default:
		return fmt.Sprintf("All sessions need ~%s tokens, all replicas hold ~%s. Try %s. More: `warden advise`.", about(need), about(room), advice.Briefly(m, advice.Now(live)))
	}
}

func hitsBelow(e *control.Engine, rate float64) bool {
	return e.HitRate60s != nil && *e.HitRate60s < rate
}

func waitingSuffix(e *control.Engine) string {
	if e.Waiting == 0 {
		return ""
	}
	return fmt.Sprintf(", %d waiting", e.Waiting)
}

// engineFacts lists what the engine itself says.
func engineFacts(r control.Replica) string {
	e := r.Engine
	facts := []string{"KV used " + cell.Percent(e.KVUsed)}
	if e.HitRate60s != nil {
		facts = append(facts, "prefix hits "+cell.Percent(*e.HitRate60s))
	}
	facts = append(facts, fmt.Sprintf("%d running, %d waiting", e.Running, e.Waiting))
	if e.Preemptions60s != nil && *e.Preemptions60s > 0 {
		facts = append(facts, fmt.Sprintf("%d preemptions in 60 s", *e.Preemptions60s))
	}
	if r.TTFT != nil {
		facts = append(facts, "TTFT p50 "+cell.Seconds(r.TTFT.P50))
	}
	return strings.Join(facts, ", ") + "."
}

// preempted finds engines that throw running requests back to waiting: work done twice.
func preempted(m control.Model, rs []control.Replica, _ Waits) []Finding {
	var out []Finding
	for _, r := range serving(rs) {
		if r.Engine.Preemptions60s == nil || *r.Engine.Preemptions60s == 0 {
			continue
		}
		n := *r.Engine.Preemptions60s
		out = append(out, Finding{
			Level: Note, Replicas: []string{r.ID},
			Short:    fmt.Sprintf("%s: %d %s in 60 s, work is done twice", r.ID, n, plural(int(n), "preemption", "preemptions")),
			Cause:    fmt.Sprintf("%s: its running requests outgrew the KV cache, and the engine threw %d of them back.", r.ID, n),
			Evidence: engineFacts(r),
			Remedy:   fmt.Sprintf("A lower `-- --max-num-seqs` (now %s) admits fewer at once.", orUnknown(m.MaxNumSeqs)),
		})
	}
	return out
}

func orUnknown(n int) string {
	if n == 0 {
		return "unknown"
	}
	return fmt.Sprint(n)
}

// prefixBreaks finds sessions that stayed and yet found little of their history: the client changed its beginning.
func prefixBreaks(_ control.Model, rs []control.Replica, _ Waits) []Finding {
	var sessions, where, clients []string
	var worst control.Session
	var named []control.Session // the daemon found the cause
	for _, r := range serving(rs) {
		if r.SessionTokens2m > r.Engine.KVCapacityTokens || r.Engine.KVUsed >= KVFull {
			continue // eviction explains the misses
		}
		found := false
		for _, s := range r.Sessions {
			if s.Break != nil {
				named = append(named, s)
				continue
			}
			if s.Home != r.ID || s.Reason != "sticky" || s.Turns < brokenTurns || s.CachedShare == nil || *s.CachedShare >= brokenShare {
				continue
			}
			if len(sessions) == 0 || *s.CachedShare < *worst.CachedShare {
				worst = s
			}
			sessions, found = append(sessions, s.ID), true
			if s.Client != "" && !contains(clients, s.Client) {
				clients = append(clients, s.Client)
			}
		}
		if found {
			where = append(where, r.ID)
		}
	}
	if len(named) > 0 {
		return []Finding{brokenPrefix(named)}
	}
	if len(sessions) == 0 {
		return nil
	}
	who := plural(len(sessions), "session "+sessions[0]+" stays", fmt.Sprintf("%d sessions stay", len(sessions)))
	f := Finding{
		Level: Note, Replicas: where,
		Short: who + " but " + plural(len(sessions), "is", "are") + " read anew: the prompt's beginning changes",
		Cause: strings.ToUpper(who[:1]) + who[1:] + " on one replica with room in its cache, yet most of the prompt is computed anew: its beginning changes from turn to turn.",
		Evidence: fmt.Sprintf("%s: turn %d, %s tokens, %s of its last prompt came from the cache.",
			worst.ID, worst.Turns, about(worst.Tokens), cell.Percent(*worst.CachedShare)),
		Remedy: "Keep system prompt and tool list the same for the whole conversation: no clock, no counter, no changing header line in it",
	}
	if len(clients) > 0 {
		f.Remedy += " (client: " + strings.Join(clients, ", ") + ")"
	}
	f.Remedy += "."
	return []Finding{f}
}

// brokenPrefix tells of the latest break whose cause the daemon knows.
func brokenPrefix(sessions []control.Session) Finding {
	last := sessions[0]
	for _, s := range sessions {
		if s.Break.At.After(last.Break.At) {
			last = s
		}
	}
	f := Finding{
		Level: Note, Replicas: []string{last.Home},
		Short:    plural(len(sessions), "session "+last.ID+" reads", fmt.Sprintf("%d sessions read", len(sessions))) + " its history anew: " + last.Break.Text,
		Cause:    fmt.Sprintf("Session %s on %s: %s.", last.ID, last.Home, strings.TrimSuffix(last.Break.Text, ".")),
		Evidence: fmt.Sprintf("Turn %d, about %s tokens; the cached prefix stopped matching (%s).", last.Turns, about(last.Tokens), last.Break.Cause),
		Remedy:   last.Break.Fix,
	}
	if f.Remedy == "" {
		f.Remedy = "Keep the beginning of the prompt the same for the whole conversation."
	}
	return f
}

func contains(list []string, s string) bool {
	for _, v := range list {
		if v == s {
			return true
		}
	}
	return false
}
