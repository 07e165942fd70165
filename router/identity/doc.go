// Package identity says which conversation a request belongs to.
//
// Agents resend their whole conversation on every turn, and an engine that
// has read it before answers far sooner. Placement can only keep a
// conversation where it is warm if it can name it, and the clients name it in
// two dozen ways, or not at all. This package reads one request (headers and
// body) and answers with values; it holds no clock, lock, log or goroutine.
//
// The reader's path, in the order a request takes it:
//
//	scan/        Scan: one pass over the body bytes into a scan.Body
//	identify.go  Identify: headers and Body into an Identity
//	headers.go     headers under one spelling
//	key.go         Key, and what may become one
//	sources.go     the ordered places where clients put a conversation id
//	  claude.go, codex.go  what single clients need
//	class.go       which client it is, and what it wants: a turn or a side call
//	shape.go     Describe: what a prompt's beginning looks like, in hashes
//	index.go     Index: the conversations seen lately, by id and by content
//	  conversation.go  what it keeps of each
//	resolve.go     same, new, fork, rewind, retry, sibling or compaction
//	diagnose.go  why a prefix stopped matching, and the setting that mends it
//
// Ids leave this package only as 128-bit hashes (Key); prompt text leaves it
// only as 64-bit hashes and lengths.
package identity
