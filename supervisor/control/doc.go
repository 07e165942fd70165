// Package control is warden's only administrative door: HTTP and JSON on a unix socket.
//
// Read in this order:
//
//  1. status.go, tuning.go: what the daemon says about itself; the wire types of GET /v1/status.
//     history.go: what it has seen in the last hour.
//  2. action.go: what it can be told to do; log lines; the lines of GET /v1/events.
//  3. errors.go: what it answers when it cannot.
//  4. daemon.go: the daemon as this package sees it.
//  5. socket.go, place.go and peercred.go: who may listen, what when the socket is removed, who may talk.
//  6. server.go, handlers.go, stream.go: the daemon's side.
//  7. client.go, calls.go, holder.go: the command line's and the dashboard's side; what it says of a daemon that is silent.
//
// The wire types are a promise to scripts. Fields are only ever added; names are snake_case; units are base units
// (seconds, bytes, ratios from 0 to 1); times are RFC 3339. A number that is not known is left out, never sent as 0:
// hence the pointers. The types of supervisor and router may change freely, cmd/internal/daemon converts.
//
//	GET  /v1/status
//	GET  /v1/history                        the last hour's memory, by minute
//	GET  /v1/events                         NDJSON of Message: a snapshot, then changes, a status each second
//	GET  /v1/logs?replica=r0&tail=100&since=2026-01-02T15:04:05Z&follow=1&previous=1     NDJSON of LogLine
//	GET  /v1/version
//	GET  /v1/config
//	PUT  /v1/models/{alias}/affinity        {"mode":"on"}, or off, balance, affinity, admission
//	PUT  /v1/models/{alias}/spill           {"limit":8}; 0 = automatic
//	POST /v1/replicas/{id}/{restart,drain,undrain,kill,retry}
//	POST /v1/shutdown                       {"drain":"30s"} or {"now":true}
//	GET  /debug/pprof/
package control
