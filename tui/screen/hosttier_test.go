package screen

import (
	"testing"

	"github.com/lm-warden/warden/supervisor/control"
)

func TestDetailShowsTheHostTier(t *testing.T) {
	row := func(tier *control.HostTier) string {
		for _, r := range engineRows(control.Replica{Engine: &control.Engine{HostTier: tier}}) {
			if r[0] == "host memory" {
				return r[1]
			}
		}
		return ""
	}
	if got := row(nil); got != "" {
		t.Errorf("without a tier: %q", got)
	}
	share := 0.59
	want := "59% of what the KV cache lacked came from there in 60 s; in all 38.9k of 737k tokens; holds 117k tokens"
	if got := row(&control.HostTier{CapacityTokens: 116_508, QueriedTokens: 736_808, HitTokens: 38_928, HitRate60s: &share}); got != want {
		t.Errorf("%q\nwant %q", got, want)
	}
}
