// Package self is how this program starts itself: hidden commands as helpers of
// a running warden, and the command line of `up` again as another warden.
package self

import "os"

// Hidden commands; cmd/warden answers them before cobra sees the arguments,
// because they take other programs' arguments.
const (
	Shim      = "__shim"      // supervisor/shim: one engine's parent
	NVML      = "__nvml"      // gpu: asks the driver
	SimEngine = "__simengine" // supervisor/simengine: stands for vLLM
)

// started is where this program's file was when it started. Asked later, the
// kernel names the place that the file was moved to.
var started, errStarted = os.Executable()

// File is where the program to upgrade to is: at the place that this one was
// started from, whatever became of its own file.
func File() (string, error) { return started, errStarted }

// running is the program that runs, for itself and for the shims it has started:
// the kernel keeps it while they do, whatever becomes of its file.
const running = "/proc/self/exe"

// Path starts this program for once, under its own name where its file is still
// what runs. One that was put in its place by an upgrade may be half written, and
// is for the next warden; one that was removed is still here.
func Path() string {
	file, err := os.Stat(started)
	if err != nil {
		return running
	}
	if now, err := os.Stat(running); err != nil || !os.SameFile(file, now) {
		return running
	}
	return started
}

// Argv is the command line of a hidden command, without its arguments, for a
// start now.
func Argv(hidden string) []string { return []string{Path(), hidden} }

// LastingArgv is the same for starts at any later time.
func LastingArgv(hidden string) []string { return []string{running, hidden} }

// WithFlag is a command line of `up` with a flag right behind the command.
func WithFlag(args []string, flag string) []string {
	for i, arg := range args {
		if arg == "up" {
			return append(append(append([]string{}, args[:i+1]...), flag), args[i+1:]...)
		}
	}
	return append([]string{"up", flag}, args...)
}
