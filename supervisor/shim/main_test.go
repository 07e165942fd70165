package shim

import (
	"testing"

	"github.com/lm-warden/warden/supervisor/internal/testengine"
)

// TestMain lets the test binary be a shim and an engine as well.
func TestMain(m *testing.M) { testengine.TestMain(m, Main) }
