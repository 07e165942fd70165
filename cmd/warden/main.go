// Command warden runs vLLM on every GPU of a machine and sends each agent
// conversation back to the replica that remembers it.
//
// This package is the command line: commands, what they print, and exit codes.
// Reading order: main.go, root.go (the command tree), up.go (what a start does),
// here.go and behind.go (the daemon in this process and in one of its own), then
// one file per command. What runs is cmd/internal/daemon; its doc.go goes on.
package main

import "os"

func main() { os.Exit(Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
