// Package screen draws a State as text: Render is a pure function of state, size and theme.
//
// Read in this order: layout.go (how a picture is put together), header.go, columns.go and table.go, panels.go,
// sessions.go, tokens.go, advice.go, logview.go, detail.go, help.go. once.go draws a single picture. The golden files
// in testdata are the best introduction.
package screen
