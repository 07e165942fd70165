// Command warden runs vLLM on every GPU of a machine and sends each agent
// conversation back to the replica that remembers it.
//
// Reading order: main.go, root.go (the command tree), up.go (what a start
// does), daemon.go (the parts and their order), wire.go (how their types meet),
// status.go (what the control socket tells), then one file per command. One
// warden after another: leftover.go (what a crash left), upgrade.go with
// takeover.go (the old and the new side of an upgrade), notify.go (systemd).
package main

import "os"

func main() { os.Exit(Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
