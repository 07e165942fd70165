package load

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Report is what one run measured at the client. Durations are in seconds,
// shares are 0 to 1; NaN-free: a figure without data is nil.
type Report struct {
	Sessions             int      `json:"sessions"`
	Seconds              float64  `json:"seconds"`
	Simulated            bool     `json:"simulated"`
	TurnsFinished        int      `json:"turns_finished"`
	TurnsFailed          int      `json:"turns_failed"`
	TurnsCut             int      `json:"turns_cut"`
	SessionsFinished     int      `json:"sessions_finished"`
	SessionsPerHour      float64  `json:"sessions_per_hour"`
	TurnsPerMinute       float64  `json:"turns_per_minute"`
	OutputTokensPerMin   float64  `json:"output_tokens_per_minute"`
	TTFBp50              *float64 `json:"ttfb_p50_seconds"`
	TTFBp95              *float64 `json:"ttfb_p95_seconds"`
	TTFBMax              *float64 `json:"ttfb_max_seconds"`
	TTFTp50              *float64 `json:"ttft_p50_seconds"`
	TTFTp95              *float64 `json:"ttft_p95_seconds"`
	FirstTurnTTFTp50     *float64 `json:"first_turn_ttft_p50_seconds"`
	LaterTurnsTTFTp50    *float64 `json:"later_turns_ttft_p50_seconds"`
	SessionP50           *float64 `json:"session_p50_seconds"`
	CachedShare          *float64 `json:"cached_share"`
	StayedShare          *float64 `json:"stayed_share"`
	PromptTokensFirst    *float64 `json:"prompt_tokens_first_turn_mean"`
	PromptTokensLongest  *float64 `json:"prompt_tokens_longest"`
	BusyReplicas         *float64 `json:"replicas_busy_mean"` // that held at least one turn; nil without warden's headers
	Replicas             int      `json:"replicas_seen"`
	TurnsPerReplicaRange [2]int   `json:"turns_per_replica_min_max"`
	FirstError           string   `json:"first_error,omitempty"`
}

// Report is the figures of all runs; the error is the first failure when every
// turn failed.
func (m Measurement) Report() (Report, error) {
	out := Report{Sessions: m.Sessions}
	var sum measures
	var lengths []float64
	busy := 0.0
	for _, r := range m.runs {
		elapsed := r.ended.Sub(r.started)
		out.Seconds += elapsed.Seconds()
		out.TurnsCut += len(r.cut)
		for _, t := range r.turns {
			sum.add(t, &out)
		}
		for _, s := range r.sessions {
			if s.complete {
				lengths = append(lengths, s.took.Seconds())
			}
		}
		busy += busyReplicas(slices.Concat(r.turns, r.cut))
	}
	sum.fill(&out)
	out.SessionsFinished = len(lengths)
	out.SessionP50 = quantile(lengths, 0.5)
	if out.Seconds > 0 {
		out.SessionsPerHour = float64(len(lengths)) / out.Seconds * 3600
		out.TurnsPerMinute = float64(out.TurnsFinished) / out.Seconds * 60
		out.OutputTokensPerMin = float64(sum.output) / out.Seconds * 60
		if out.Replicas > 0 {
			mean := busy / out.Seconds
			out.BusyReplicas = &mean
		}
	}
	if out.TurnsFinished == 0 && out.TurnsFailed > 0 {
		return out, fmt.Errorf("every turn failed; the first: %s", out.FirstError)
	}
	return out, nil
}

// busyReplicas sums over the replicas how long each of them held at least one
// turn, in seconds.
func busyReplicas(turns []Turn) float64 {
	byReplica := map[string][]Turn{}
	for _, t := range turns {
		if t.Replica != "" {
			byReplica[t.Replica] = append(byReplica[t.Replica], t)
		}
	}
	total := time.Duration(0)
	for _, list := range byReplica {
		slices.SortFunc(list, func(a, b Turn) int { return a.Began.Compare(b.Began) })
		until := time.Time{}
		for _, t := range list {
			from, to := t.Began, t.Began.Add(t.Total)
			if from.Before(until) {
				from = until
			}
			if to.After(from) {
				total += to.Sub(from)
				until = to
			}
		}
	}
	return total.Seconds()
}

// measures gathers the columns of the finished turns.
type measures struct {
	ttfb, ttft, first, later, firstPrompt []float64
	prompt, cached, output, longest       int
	measured                              bool
	followUps, stayed                     int
	perReplica                            map[string]int
}

func (m *measures) add(t Turn, out *Report) {
	if t.Err != nil {
		out.TurnsFailed++
		if out.FirstError == "" {
			out.FirstError = t.Err.Error()
		}
		return
	}
	out.TurnsFinished++
	m.ttfb = append(m.ttfb, t.TTFB.Seconds())
	if t.TTFT > 0 {
		m.ttft = append(m.ttft, t.TTFT.Seconds())
		if t.N == 1 {
			m.first = append(m.first, t.TTFT.Seconds())
		} else {
			m.later = append(m.later, t.TTFT.Seconds())
		}
	}
	if t.N == 1 {
		m.firstPrompt = append(m.firstPrompt, float64(t.PromptTokens))
	}
	m.longest = max(m.longest, t.PromptTokens)
	m.prompt += t.PromptTokens
	m.output += t.OutputTokens
	if t.CachedTokens >= 0 {
		m.measured = true
		m.cached += t.CachedTokens
	}
	if t.Replica == "" {
		return
	}
	if m.perReplica == nil {
		m.perReplica = map[string]int{}
	}
	m.perReplica[t.Replica]++
	if t.N > 1 {
		m.followUps++
		if t.Stayed {
			m.stayed++
		}
	}
}

func (m *measures) fill(out *Report) {
	out.TTFBp50, out.TTFBp95, out.TTFBMax = quantile(m.ttfb, 0.5), quantile(m.ttfb, 0.95), quantile(m.ttfb, 1)
	out.TTFTp50, out.TTFTp95 = quantile(m.ttft, 0.5), quantile(m.ttft, 0.95)
	out.FirstTurnTTFTp50, out.LaterTurnsTTFTp50 = quantile(m.first, 0.5), quantile(m.later, 0.5)
	out.PromptTokensFirst = mean(m.firstPrompt)
	if m.longest > 0 {
		longest := float64(m.longest)
		out.PromptTokensLongest = &longest
	}
	if m.measured && m.prompt > 0 {
		out.CachedShare = share(m.cached, m.prompt)
	}
	if m.followUps > 0 {
		out.StayedShare = share(m.stayed, m.followUps)
	}
	out.Replicas = len(m.perReplica)
	for _, n := range m.perReplica {
		if out.TurnsPerReplicaRange[0] == 0 || n < out.TurnsPerReplicaRange[0] {
			out.TurnsPerReplicaRange[0] = n
		}
		out.TurnsPerReplicaRange[1] = max(out.TurnsPerReplicaRange[1], n)
	}
}

// quantile is the nearest-rank quantile: the smallest value that at least q of
// the values do not exceed. nil without values.
func quantile(values []float64, q float64) *float64 {
	if len(values) == 0 {
		return nil
	}
	sorted := slices.Sorted(slices.Values(values))
	rank := int(math.Ceil(q*float64(len(sorted)))) - 1
	return &sorted[max(0, rank)]
}

func mean(values []float64) *float64 {
	if len(values) == 0 {
		return nil
	}
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	sum /= float64(len(values))
	return &sum
}

func share(part, whole int) *float64 {
	s := float64(part) / float64(whole)
	return &s
}
