package machine

import (
	"testing"
	"time"
)

// Whoever waits for a replica goes on waiting while its engine is replaced.
func TestReturns(t *testing.T) {
	for name, tt := range map[string]struct {
		events []Event
		want   bool
	}{
		"ready":                   {toReady, false},
		"exited":                  {after(toReady, Exited{}), true},
		"dead":                    {after(toReady, Dead{"d"}), true},
		"a start that failed":     {[]Event{Start{}, Gate{}, Spawned{info}, Answers{}, Cold{"c"}}, true},
		"restart":                 {after(toReady, Restart{}), true},
		"drains for a restart":    {after(toReady, Restart{time.Minute}), true},
		"drains":                  {after(toReady, Drain{}), false},
		"stop":                    {after(toReady, Stop{}), false},
		"drains for a stop":       {after(toReady, Stop{time.Minute}), false},
		"stop after the exit":     {after(toReady, Exited{}, Stop{}), false},
		"set aside":               {after(toReady, Aside{broken, true}), false},
		"back-off, a state alone": {after(toReady, Exited{}, Gone{Diagnosis: passing}), false},
	} {
		if got := driven(tt.events...).View().Returns; got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
