// Package prompt turns what clients send into the token sequences that the
// simulated engine schedules, and decides what it answers.
//
// It replaces the three things of a model that matter to routing: a tokenizer
// (tokenizer.go), a chat template (template.go) and a text generator
// (answer.go). All three are deterministic: equal conversations give equal
// tokens, and a conversation with one more turn starts with the tokens of the
// shorter one, its own answer included. That is what makes prefix caches of
// simulated engines behave like real ones.
//
// Clients steer the answer with markers in the last user message (marker.go).
package prompt
