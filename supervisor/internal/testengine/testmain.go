package testengine

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// ShimCommand is the first argument that makes a test binary behave as a shim.
const ShimCommand = "__shim"

// TestMain runs the tests of a package, or what a test has started its own binary as: an engine, or a shim, which is
// package shim's Main. That is given, since the tests of package shim use this, too.
func TestMain(m *testing.M, shim func(args []string) int) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case ShimCommand:
			os.Exit(shim(os.Args[2:]))
		case Command:
			os.Exit(Main(os.Args[2:]))
		}
	}
	goleak.VerifyTestMain(m)
}
