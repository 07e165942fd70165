package record

import (
	"testing"

	"github.com/lm-warden/warden/router/dialect"
	"github.com/lm-warden/warden/router/identity"
	"github.com/lm-warden/warden/router/placement"
)

func TestOutcomes(t *testing.T) {
	measured := dialect.Usage{PromptTokens: 100, CachedTokens: 80, OutputTokens: 5}
	none := dialect.Usage{PromptTokens: -1, CachedTokens: -1, OutputTokens: -1}
	for _, c := range []struct {
		name   string
		record Record
		want   placement.Outcome
		ending identity.Ending
	}{
		{"answered", Record{Status: 200, Usage: measured, Finish: "stop"},
			placement.Outcome{PromptTokens: 100, CachedTokens: 80, OutputTokens: 5, FinishClass: "stop"}, identity.Done},
		{"not measured", Record{Status: 200, Usage: none}, placement.Outcome{CachedTokens: -1}, identity.Done},
		// What an engine refused has left no trace in its cache.
		{"refused by the engine", Record{Status: 400, Usage: none}, placement.Outcome{CachedTokens: -1, Failed: true}, identity.Failed},
		{"broken", Record{Status: 200, Failed: true, Usage: none}, placement.Outcome{CachedTokens: -1, Failed: true}, identity.Failed},
		{"client left", Record{Aborted: true, Usage: none}, placement.Outcome{CachedTokens: -1, Aborted: true}, identity.Aborted},
	} {
		if got := c.record.Outcome(); got != c.want || c.record.Ending() != c.ending {
			t.Errorf("%s: %+v, ending %d", c.name, got, c.record.Ending())
		}
	}
}
