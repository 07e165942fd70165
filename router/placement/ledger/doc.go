// Package ledger is the book of who lives where: the conversations that are
// known, the processes that serve them, and what each has been promised. It
// decides nothing. It keeps counts that must agree: a conversation's share of
// its home's counts, a resident's of its set's sums, are moved by the methods
// that change what they depend on, and by nothing else.
//
// Reader's path:
//
//	spec.go      what is told of a replica from outside
//	replica.go   the account of one engine process: all that was placed on it
//	session.go   one conversation: its home, its size, what is cached of it
//	root.go      the prefix that conversations of one agent share
//	table.go     the bounded table of conversations
//	residents.go the conversations that a replica has promised room to
//	safety.go    how much of a cache is handed out to them
package ledger
