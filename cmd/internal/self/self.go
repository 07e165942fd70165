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

// Path starts this program, also after its file was replaced by an upgrade, or
// removed. A file that nobody may run yet is still being installed.
func Path() string {
	info, err := os.Stat(started)
	if err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return "/proc/self/exe"
	}
	return started
}

// Argv is the command line of a hidden command, without its arguments.
func Argv(hidden string) []string { return []string{Path(), hidden} }

// WithFlag is a command line of `up` with a flag right behind the command.
func WithFlag(args []string, flag string) []string {
	for i, arg := range args {
		if arg == "up" {
			return append(append(append([]string{}, args[:i+1]...), flag), args[i+1:]...)
		}
	}
	return append([]string{"up", flag}, args...)
}
