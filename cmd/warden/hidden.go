package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/lm-warden/warden/gpu"
	"github.com/lm-warden/warden/supervisor/shim"
	"github.com/lm-warden/warden/supervisor/simengine"
)

// hiddenCommands are what warden starts itself as. They stay outside cobra:
// they take other programs' arguments.
var hiddenCommands = map[string]func(args []string, in io.Reader, out, errOut io.Writer) int{
	"__shim":      runShim,
	"__nvml":      runNVML,
	"__simengine": runSimEngine,
}

// selfPath is this program, also after its file was replaced by an upgrade.
func selfPath() string {
	path, err := os.Executable()
	if err != nil {
		return "/proc/self/exe"
	}
	return path
}

func nvmlArgv() []string { return []string{selfPath(), "__nvml"} }

func runShim(args []string, _ io.Reader, _, _ io.Writer) int { return shim.Main(args) }

func runNVML(_ []string, in io.Reader, out, errOut io.Writer) int {
	if err := gpu.ServeNVML(context.Background(), in, out, os.Getenv("WARDEN_NVML_LIBRARY")); err != nil {
		fmt.Fprintln(errOut, err)
		return exitFailed
	}
	return exitOK
}

func runSimEngine(args []string, _ io.Reader, out, errOut io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return simengine.Main(ctx, args, out, errOut)
}
