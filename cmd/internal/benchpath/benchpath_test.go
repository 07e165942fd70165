package benchpath

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// As `benchpath.test serve ...` the test binary is an engine, as the command is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		engine, err := ParseEngine(os.Args[2:])
		if err == nil {
			err = engine.Serve()
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

func equal(a, b *float64) bool {
	return a == nil && b == nil || a != nil && b != nil && *a == *b
}

func text(v *float64) string { return show("%v", v) }
