package remote

import (
	"fmt"
	"io"

	"github.com/lm-warden/warden/supervisor/control"
	"github.com/lm-warden/warden/supervisor/control/advice"
)

// writeMemory says for each model how much conversation fits, and what became of
// the tier in host memory; wide, also what was chosen for the engines.
func writeMemory(w io.Writer, s control.Status, wide bool) {
	for _, m := range s.Models {
		if text := advice.Capacity(m, s.Replicas); text != "" {
			fmt.Fprintf(w, "%s: %s\n", m.Alias, text)
		}
		if text := advice.Tier(m); text != "" {
			if hits := advice.TierHits(m, s.Replicas); hits != "" {
				text += "; " + hits
			}
			fmt.Fprintf(w, "%s: %s\n", m.Alias, text)
		}
		if wide {
			for _, text := range advice.Chosen(m) {
				fmt.Fprintf(w, "%s: %s\n", m.Alias, text)
			}
		}
	}
}
