// Package daemon is a running warden: one process that wires the parts which do
// not know each other (gpu, supervisor, router, supervisor/control) and decides
// in which order they start and stop. Package main of cmd/warden makes one from
// the command line; everybody else talks to it over the control socket.
//
// Reading order, along the life of a warden:
//
//   - start: daemon.go (New claims the addresses, looks at the machine, plans;
//     which devices each replica gets is package plan's, what the GPUs do
//     gpuwatch's), wire.go (how the types of the parts meet), adopt.go (engines
//     that an earlier warden left), sessions.go (where conversations lived)
//   - serve: Run in daemon.go; access.go (who may use the API; package front has
//     keys and certificate), recorders.go (who hears of finished requests: access
//     log, traces), metrics.go (GET /metrics), demo.go (the load of `up --demo`),
//     systemd.go (what a service manager is told), processors.go (how many of
//     the machine's it takes)
//   - status and orders: status.go asks the parts what they know (package status
//     puts it together), orders.go does what the control API asks for, history.go
//     (the last hour), settings.go is what GET /v1/config may tell
//   - upgrade: upgrade.go (the one that leaves), takeover.go (the one that comes),
//     overlap.go (requests that the one before still answers); package handover
//     has what they say to each other
//   - stop: Stop and Kill in daemon.go order it, stop.go does it
package daemon
