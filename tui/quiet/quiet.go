// Package quiet keeps a library from talking to the terminal before main has begun.
//
// bubbletea v1 asks the terminal for its background colour in its package initialiser: it writes two queries to
// stdout, swallows what was typed ahead, and waits up to five seconds for a terminal that does not answer (a pty of a
// test, a container, a serial line). That would happen to every command of the binary, also to those that never open a
// dashboard. The library asks nothing where CI is set, so CI is set while packages are initialised and restored before
// main.
//
// It works because packages without a mutual dependency are initialised in the order of their import paths (Go spec,
// "Program initialization"): this package, which imports only os, comes before github.com/mattn and github.com/muesli,
// and bubbletea depends on those. The test in package tui runs a program on a terminal that does not answer, so a
// change of that order is noticed. bubbletea v2 no longer asks; this package goes away with it.
package quiet

import "os"

const variable = "CI"

// before is the variable as the user set it.
var before, wasSet = os.LookupEnv(variable)

func init() {
	if before == "" {
		os.Setenv(variable, "1") // fails only for a malformed name
	}
}

// Restore gives the variable back. Package tui calls it as soon as bubbletea has been initialised.
func Restore() {
	switch {
	case before != "":
	case wasSet:
		os.Setenv(variable, before)
	default:
		os.Unsetenv(variable)
	}
}
