// Package scan reads the body of a request once: which members it has, what
// its turns and tools hash to, and where the router may write.
//
// Clients write the same turn in different forms as it ages, so a turn hashes
// by what it says, not by its bytes. Which conversation the turns belong to is
// no question of this package: identity, above it, answers that.
//
// The reader's path, from the whole to the single byte:
//
//	body.go        Body: what a scan finds, and by which rules
//	scan.go        Scan: one pass over the bytes, member by member
//	ids.go           members that may name a conversation, as they were sent
//	turns.go         messages, items and raw prompts, turn by turn
//	node.go            canonical hash of a message, an item or a content part
//	root.go          canonical hash of system text and tools
//	memo.go        Memo: what was read before is only compared
//	hash.go        from a string, or any value, to its hash
//	cursor.go      the JSON walker below all: no recursion, no full decode
//	quoted.go        its strings, which are nearly all of a body: each byte once
//	marks.go         where quotes and backslashes are, 64 bytes at a time
//	escape.go        what the escapes in a string stand for
//	edit.go        byte-exact changes to a scanned body
//
// Nothing here keeps a reference to a body. Where a function takes one beside
// a Body, it has to be the one that the Body was scanned from, unchanged.
package scan
