// Package advice says what would help a model whose conversations outgrow its KV
// cache, with figures for the machine at hand. It is pure functions of what the
// control API tells; the command `warden advise` looks at the last hour with it,
// the dashboard's explanation at this moment.
//
// Reader's path: load.go (an hour of minutes as one Load), advise.go (what it
// means: Verdict), remedies.go (each remedy with its figures, or why it is none
// here). capacity.go says before any load what fits, and what was chosen.
package advice
