package load

import (
	"cmp"
	"math"
)

// Drift is how far a replay was from its recording.
type Drift struct {
	Sent int `json:"requests_sent"`
	// Late counts the requests sent after their time, because the one before
	// them had not ended; LatestBy is the longest of these delays.
	Late     int     `json:"requests_late"`
	LatestBy float64 `json:"latest_by_seconds"`

	// Of the requests that were answered: the tokens that were recorded and
	// those that were measured.
	PromptRecorded int `json:"prompt_tokens_recorded"`
	PromptReplayed int `json:"prompt_tokens_replayed"`
	OutputRecorded int `json:"output_tokens_recorded"`
	OutputReplayed int `json:"output_tokens_replayed"`

	off []float64 // of each prompt, relative
}

func (d *Drift) add(step Step, t Turn) {
	d.OutputRecorded += step.Output
	d.OutputReplayed += t.OutputTokens
	if step.Prompt == 0 || t.PromptTokens == 0 {
		return
	}
	d.PromptRecorded += step.Prompt
	d.PromptReplayed += t.PromptTokens
	d.off = append(d.off, math.Abs(float64(t.PromptTokens-step.Prompt))/float64(step.Prompt))
}

// PromptOffP95 is the relative error that 95 % of the prompts do not exceed.
func (d Drift) PromptOffP95() float64 {
	q := quantile(d.off, 0.95)
	return *cmp.Or(q, new(float64))
}

// Recorded is a Measurement of turns that were measured elsewhere: those that
// were answered or failed, and those whose client left.
func Recorded(sessions int, turns, cut []Turn) Measurement {
	r := &recorder{turns: turns, cut: cut}
	bySession := map[string]sessionEnd{}
	first := map[string]Turn{}
	for _, t := range append(append([]Turn(nil), turns...), cut...) {
		if r.started.IsZero() || t.Began.Before(r.started) {
			r.started = t.Began
		}
		if end := t.Began.Add(t.Total); end.After(r.ended) {
			r.ended = end
		}
		if f, ok := first[t.Session]; !ok || t.Began.Before(f.Began) {
			first[t.Session] = t
		}
	}
	for _, t := range append(append([]Turn(nil), turns...), cut...) {
		took := t.Began.Add(t.Total).Sub(first[t.Session].Began)
		bySession[t.Session] = sessionEnd{took: max(took, bySession[t.Session].took), complete: true}
	}
	for _, s := range bySession {
		r.sessions = append(r.sessions, s)
	}
	return Measurement{Sessions: sessions, runs: []*recorder{r}}
}
