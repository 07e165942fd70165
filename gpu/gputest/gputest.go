// Package gputest builds a small libnvidia-ml for tests, so that they exercise
// the real path: dlopen, missing symbols, a driver that hangs. The C source in
// testdata describes the state file that plays the hardware.
package gputest

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

//go:embed testdata/fakenvml.c
var source []byte

// StateEnv names the environment variable with the path of the state file.
const StateEnv = "FAKENVML_STATE"

// Build compiles the library without the symbols in omit and returns its path.
// It skips the test where there is no gcc.
func Build(t testing.TB, omit ...string) string {
	t.Helper()
	return Compile(t).Without(t, omit...)
}

// Object is the compiled library, to be linked in several flavours.
type Object struct{ gcc, path string }

// Compile skips the test where there is no gcc.
func Compile(t testing.TB) Object {
	t.Helper()
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("no gcc, which builds the fake libnvidia-ml")
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "fakenvml.c")
	write(t, file, source)
	o := Object{gcc: gcc, path: filepath.Join(dir, "fakenvml.o")}
	run(t, gcc, "-std=gnu11", "-c", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-deprecated-declarations",
		"-I", headers(t), "-o", o.path, file)
	return o
}

// Without links a library that lacks some symbols and returns its path.
func (o Object) Without(t testing.TB, omit ...string) string {
	t.Helper()
	dir := t.TempDir()
	// An exact name beats a pattern in a version script, so this hides the
	// omitted functions and shows the rest.
	script := filepath.Join(dir, "symbols.map")
	hidden := ""
	for _, symbol := range omit {
		hidden += " " + symbol + ";"
	}
	write(t, script, []byte("{ global: nvml*; local:"+hidden+" *; };\n"))
	library := filepath.Join(dir, "libnvidia-ml.so.1")
	run(t, o.gcc, "-shared", "-Wl,--version-script="+script, "-o", library, o.path)
	return library
}

// headers is the folder of NVML's own header, inside go-nvml: with it the
// compiler checks every prototype of the fake.
func headers(t testing.TB) string {
	t.Helper()
	return strings.TrimSpace(run(t, "go", "list", "-f", "{{.Dir}}", "github.com/NVIDIA/go-nvml/pkg/nvml"))
}

func run(t testing.TB, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, stderr.String())
	}
	return string(out)
}

func write(t testing.TB, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// State is the state file of one fake machine.
type State struct {
	Path string
	t    testing.TB
}

// NewState makes a state file with these lines.
func NewState(t testing.TB, lines ...string) *State {
	t.Helper()
	s := &State{Path: filepath.Join(t.TempDir(), "state"), t: t}
	s.Set(lines...)
	return s
}

// Set replaces the state; calls see the old one or the new one, never a half.
func (s *State) Set(lines ...string) {
	s.t.Helper()
	next := s.Path + ".next"
	write(s.t, next, []byte(strings.Join(lines, "\n")+"\n"))
	if err := os.Rename(next, s.Path); err != nil {
		s.t.Fatal(err)
	}
}

// Env is the variable that points the library to this state.
func (s *State) Env() string { return StateEnv + "=" + s.Path }

// A4000s are the lines of n idle RTX A4000 on one NUMA node, in an order that
// is not the one of the bus: NVML index 0 is the last on the bus.
func A4000s(n int) []string {
	lines := []string{"driver 580.95.05", "cuda 13000"}
	for i := range n {
		lines = append(lines, fmt.Sprintf("gpu %d name=NVIDIA_RTX_A4000 uuid=%s bus=00000000:%02X:00.0 "+
			"total=16376 used=2 reserved=300 cc=8.6 power=14 temp=35", i, UUID(n-1-i), 0x10*(n-i)))
	}
	return lines
}

// UUID is the UUID of the GPU of A4000s with that index in bus order.
func UUID(index int) string { return fmt.Sprintf("GPU-a4000000-0000-4000-8000-%012d", index) }
