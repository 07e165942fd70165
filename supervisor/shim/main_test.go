package shim

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/lm-warden/warden/supervisor/internal/testengine"
)

// TestMain lets the test binary be a shim and an engine as well.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "__shim":
			os.Exit(Main(os.Args[2:]))
		case testengine.Command:
			os.Exit(testengine.Main(os.Args[2:]))
		}
	}
	goleak.VerifyTestMain(m)
}
