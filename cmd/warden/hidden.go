package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/lm-warden/warden/cmd/internal/exit"
	"github.com/lm-warden/warden/cmd/internal/self"
	"github.com/lm-warden/warden/gpu"
	"github.com/lm-warden/warden/supervisor/shim"
	"github.com/lm-warden/warden/supervisor/simengine"
)

// hiddenCommands are what warden starts itself as. They stay outside cobra:
// they take other programs' arguments.
var hiddenCommands = map[string]func(args []string, in io.Reader, out, errOut io.Writer) int{
	self.Shim:      runShim,
	self.NVML:      runNVML,
	self.SimEngine: runSimEngine,
}

func runShim(args []string, _ io.Reader, _, _ io.Writer) int { return shim.Main(args) }

func runNVML(_ []string, in io.Reader, out, errOut io.Writer) int {
	if err := gpu.ServeNVML(context.Background(), in, out, os.Getenv("WARDEN_NVML_LIBRARY")); err != nil {
		fmt.Fprintln(errOut, err)
		return exit.Failed
	}
	return exit.OK
}

func runSimEngine(args []string, _ io.Reader, out, errOut io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return simengine.Main(ctx, args, out, errOut)
}
