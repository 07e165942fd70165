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
//	scan.go      Scan: one pass over the body bytes into a Body
//	cursor.go      the JSON walker below it: no recursion, no full decode
//	quoted.go      its strings, which are nearly all of a body: each byte once
//	marks.go       where quotes and backslashes are, 64 bytes at a time
//	node.go        canonical hash of a message, an item or a content part
//	root.go        canonical hash of system text and tools
//	edit.go      byte-exact changes to a scanned body
//	identify.go  Identify: headers and Body into an Identity
//	sources.go     the ordered places where clients put a conversation id
//	  claude.go, codex.go, class.go  what single clients need
//	index.go     Index: the conversations seen lately, by id and by content
//	resolve.go     same, new, fork, rewind, retry, sibling or compaction
//	shape.go     what a prompt's beginning looked like, in hashes
//	diagnose.go  why a prefix stopped matching, and the setting that mends it
//
// Ids leave this package only as 128-bit hashes (Key); prompt text leaves it
// only as 64-bit hashes and lengths.
package identity
