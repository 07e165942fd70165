// Package accesslog writes one JSON line for each request that an engine was
// asked to answer, and for each refusal, and reads them again. A line holds
// names, sizes and times, never content, so that a log can be handed on.
//
// Reading order: line.go (what a line holds), log.go (from the data path to
// the file without ever holding it up), file.go (rotation, and a disk that is
// full), read.go and files.go (lines back, for `warden bench --replay`).
//
// Requests for /health, /metrics, /v1/models and the like are answered by
// warden itself; they are written only when they are refused.
package accesslog
