package self

import (
	"strings"
	"testing"
)

func TestWithFlag(t *testing.T) {
	for args, want := range map[string]string{
		"":                            "up --leash",
		"up":                          "up --leash",
		"--name a up -d -- --seed up": "--name a up --leash -d -- --seed up",
	} {
		given := strings.Fields(args)
		if got := strings.Join(WithFlag(given, "--leash"), " "); got != want {
			t.Errorf("%q became %q, want %q", args, got, want)
		}
		if now := strings.Join(given, " "); now != args {
			t.Errorf("the arguments themselves became %q", now)
		}
	}
}
