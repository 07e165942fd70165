package words

import (
	"testing"
	"time"
)

func TestWords(t *testing.T) {
	day := 24 * time.Hour
	for _, tt := range []struct{ got, want string }{
		{Count(0, "request", "requests"), "0 requests"},
		{Count(1, "request", "requests"), "1 request"},
		{Listed("replica", []string{"r0"}), "the only replica is r0"},
		{Listed("replica", []string{"r0", "r1", "r2"}), "the replicas are r0, r1, r2"},
		{Listed("replica", []string{}), "the replicas are"},
		{Short(-time.Second), "0s"},
		{Short(12*time.Second + 300*time.Millisecond), "12s"},
		{Short(3*time.Minute + 5*time.Second), "3m5s"},
		{Short(2*time.Hour + 13*time.Minute + 59*time.Second), "2h13m"},
		{Short(4*day + 2*time.Hour), "4d2h"},
		{Gigabytes(0), "-"},
		{Gigabytes(8.2), "8.2 GB"},
	} {
		if tt.got != tt.want {
			t.Errorf("%q, want %q", tt.got, tt.want)
		}
	}
}
