package span

import (
	"testing"
	"time"
)

func TestText(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 10 * time.Second: "10s", 90 * time.Second: "1m30s", 15 * time.Minute: "15m", time.Hour: "1h",
		time.Hour + time.Second: "1h0m1s", 10 * time.Hour: "10h", 20 * time.Minute: "20m",
	} {
		if got := Text(d); got != want {
			t.Errorf("%d: %q, want %q", d, got, want)
		}
	}
}
