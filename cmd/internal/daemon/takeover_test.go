package daemon

import (
	"slices"
	"strings"
	"testing"
)

func TestSameAddress(t *testing.T) {
	tests := []struct {
		configured, bound string
		want              bool
	}{
		{"127.0.0.1:8000", "127.0.0.1:8000", true},
		{"127.0.0.1:0", "127.0.0.1:41234", true},
		{"localhost:8000", "127.0.0.1:8000", true},
		{"localhost:8000", "[::]:8000", false},
		{":8000", "[::]:8000", true},
		{"0.0.0.0:8000", "[::]:8000", true},
		{"127.0.0.1:8000", "[::]:8000", false},
		{"0.0.0.0:8000", "127.0.0.1:8000", false},
		{"127.0.0.1:8001", "127.0.0.1:8000", false},
		{"127.0.0.2:8000", "127.0.0.1:8000", false},
		{"nonsense", "127.0.0.1:8000", false},
	}
	for _, tt := range tests {
		if got := sameAddress(tt.configured, tt.bound); got != tt.want {
			t.Errorf("sameAddress(%s, %s) = %v", tt.configured, tt.bound, got)
		}
	}
}

func TestTakeoverCommandLine(t *testing.T) {
	tests := []struct{ args, want string }{
		{"up --demo -- --seed 1", "up --takeover --demo -- --seed 1"},
		{"--config c up --takeover --leash -d", "--config c up --takeover --leash -d"},
	}
	for _, tt := range tests {
		if got := strings.Join(takeoverArgs(strings.Fields(tt.args)), " "); got != tt.want {
			t.Errorf("%s -> %s, want %s", tt.args, got, tt.want)
		}
	}
	env := successorEnv([]string{"A=1", "WATCHDOG_PID=7", "WATCHDOG_USEC=5"})
	if !slices.Equal(env, []string{"A=1", "WATCHDOG_USEC=5"}) {
		t.Errorf("environment %v", env)
	}
}
