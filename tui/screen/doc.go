// Package screen is the dashboard as a pure function: Reduce makes a State of messages, Render makes text of a State.
// No clock, no terminal, no daemon.
//
// Read in this order: state.go and history.go (what is remembered), reduce.go, input.go and keys.go (how it changes),
// layout.go (how a picture is put together), then its parts: header.go, columns.go and table.go, panels.go, sessions.go,
// tokens.go, advice.go, logview.go, detail.go, help.go. once.go draws a single picture.
package screen
