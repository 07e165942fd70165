// Package span writes durations for people.
package span

import (
	"strings"
	"time"
)

// Text writes a duration without its zero parts: 15m, not 15m0s.
func Text(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
