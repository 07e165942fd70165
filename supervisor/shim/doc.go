// Package shim is the small process between warden and one engine, so that engines neither hang nor die with warden.
//
// The hidden sub-command `warden __shim --dir D` runs Main: it reads D/spec.json, starts the engine in a session of
// its own, drains the engine's output into a rotated log, and answers on D/shim.sock. warden is a client (Client) and
// may come and go; the shim ends when the last process of the engine's tree has ended, and leaves D/state.json.
//
// Read in this order: Spec and State (the two files), message.go (the socket's JSON lines), Main (main.go), keeper.go
// (the order in which a tree is ended), output.go with lines.go and logfile.go (the engine's output), client.go,
// and reap.go (ending a tree whose shim is dead).
//
// Why the tree is ended for certain: the shim is a child subreaper, so every orphan of the tree becomes its child, and
// wait4 answers ECHILD only when no descendant is left, whatever group or session it moved to. Should the shim itself
// be killed, the kernel kills the engine's main process (parent-death signal), and warden, or the next warden, finds the
// rest by the mark in their environment (package proc).
package shim
