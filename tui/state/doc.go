// Package state is what the dashboard remembers between two pictures, and how a message or a key changes it. Reduce is
// a pure function: no clock, no terminal, no daemon; what shall be done because of a message comes back as an Intent.
//
// Read in this order: state.go (what there is to know), history.go (the last 60 seconds), reduce.go (messages), keys.go
// and input.go (what each key does), line.go (the line being typed), log.go (the log and its window), clean.go (why no
// name can harm the terminal). Package screen draws it, and its tests are the tests of what a key shows.
package state
