package advice

import (
	"fmt"
	"time"

	"github.com/lm-warden/warden/supervisor/control"
)

// Verdicts on a model's last hour.
type Verdict string

// The verdicts.
const (
	NoLoad Verdict = "no_load" // nothing was asked yet
	Fits   Verdict = "fits"    // the conversations in use fitted the KV cache
	Tight  Verdict = "tight"   // they outgrew it now and then, or nearly
	Over   Verdict = "over"    // they outgrew it most of the time: prefixes evict each other
)

// Report is the advice for all models of a warden.
type Report struct {
	Schema    int       `json:"schema"`
	Simulated bool      `json:"simulated"` // the engines are: no figure was measured on a GPU
	Since     time.Time `json:"since"`
	Until     time.Time `json:"until"`
	Models    []Model   `json:"models"`
}

// Model is the advice for one.
type Model struct {
	Alias    string   `json:"alias"`
	Verdict  Verdict  `json:"verdict"`
	Summary  string   `json:"summary"`
	Load     Load     `json:"load"`
	Remedies []Remedy `json:"remedies"` // none while the conversations fit
}

const (
	// schema of Report; it is raised only when a field changes its meaning.
	schema = 1

	// nearly full: one conversation more, or a longer one, no longer fits.
	nearly = 0.85
	// goodHits is a share that conversations of several turns reach while their
	// prefixes stay: five turns of six alone give more than four fifths.
	goodHits = 0.75
	// mostly is the share of minutes from which "over" is the rule.
	mostly = 0.5
)

// Advise judges the last hour of every model.
func Advise(h control.History, s control.Status) Report {
	r := Report{Schema: schema, Simulated: s.Simulated, Since: h.Started, Until: h.Now, Models: []Model{}}
	if hour := h.Now.Add(-time.Hour); r.Since.Before(hour) {
		r.Since = hour
	}
	for _, m := range s.Models {
		var minutes []control.Minute
		for _, mine := range h.Models {
			if mine.Alias == m.Alias {
				minutes = mine.Minutes
			}
		}
		r.Models = append(r.Models, judge(m, Sum(minutes)))
	}
	return r
}

func judge(m control.Model, l Load) Model {
	out := Model{Alias: m.Alias, Load: l, Verdict: verdict(l), Remedies: []Remedy{}}
	out.Summary = summary(out.Verdict, l)
	if out.Verdict == Tight || out.Verdict == Over {
		out.Remedies = Remedies(m, l)
	} else if r, ok := batchLimit(m, l); ok {
		out.Remedies = append(out.Remedies, r)
	}
	return out
}

func verdict(l Load) Verdict {
	switch {
	case l.Minutes == 0 || l.Capacity == 0:
		return NoLoad
	case float64(l.Over) >= mostly*float64(l.Minutes) && (l.HitRate == nil || *l.HitRate < goodHits || l.PeakQueued > 0):
		return Over
	case l.Over > 0 || float64(l.PeakNeed) > nearly*float64(l.Capacity):
		return Tight
	}
	return Fits
}

func summary(v Verdict, l Load) string {
	hits := ""
	if l.HitRate != nil {
		hits = fmt.Sprintf("; %.0f%% of the prompt tokens came from a cache", 100**l.HitRate)
	}
	switch v {
	case NoLoad:
		if l.Capacity == 0 {
			return "no load yet, and no replica has said how large its KV cache is"
		}
		return fmt.Sprintf("no load yet; the KV cache holds %s tokens", Count(l.Capacity))
	case Fits:
		return fmt.Sprintf("the conversations in use fit: at most %s of %s KV tokens%s", Count(l.PeakNeed), Count(l.Capacity), hits)
	case Tight:
		return fmt.Sprintf("the conversations in use fill the KV cache: at most %s of %s tokens, above it in %d of %d minutes%s", Count(l.PeakNeed), Count(l.Capacity), l.Over, l.Minutes, hits)
	}
	return fmt.Sprintf("the conversations in use need up to %s tokens and the KV cache holds %s (above it in %d of %d minutes): prefixes evict each other%s",
		Count(l.PeakNeed), Count(l.Capacity), l.Over, l.Minutes, hits)
}
