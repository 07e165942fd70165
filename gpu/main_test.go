package gpu

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// The test binary doubles as the NVML child, so that the tests cross a real
// process boundary and a real dlopen.
const (
	childEnv   = "GPU_TEST_CHILD" // serve, or the name of a way to die
	libraryEnv = "GPU_TEST_LIBRARY"
)

func TestMain(m *testing.M) {
	switch mode := os.Getenv(childEnv); mode {
	case "":
		goleak.VerifyTestMain(m)
	case "serve":
		err := ServeNVML(context.Background(), os.Stdin, os.Stdout, os.Getenv(libraryEnv))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	default:
		misbehave(mode)
	}
}
