// Package tui shows warden on a terminal. It is a client of the control socket and knows nothing that the socket does
// not tell, so `warden up`, `warden up -d` and `warden top` show the same.
//
// Read in this order:
//
//  1. source.go: where everything comes from.
//  2. packages state and screen: what the dashboard remembers, and what it looks like; pure functions.
//  3. app.go, feed.go: the program around it: keys and messages in, pictures out.
//  4. startup.go, plain.go, progress.go: a start that is still going on, told without taking over the terminal.
//
// Of the bubbles library, state uses key (one table: what is obeyed and what is told), textinput (the filter) and viewport
// (the log), screen uses help. Its others would show less here: table has one style for all cells, no row of sums, no
// headings within and marks the selected row by colour alone; progress rounds to nothing shown at 1% and to a full bar at
// 99%, which package cell's bar does not; a spinner would draw ten times a second what changes once, and turn while
// nothing moves.
//
// Further sub-packages: cell measures and colours text, explain judges a status, quiet keeps a library from asking the
// terminal before main. Meaning is never carried by colour alone: each colour stands beside a word or a mark.
package tui
