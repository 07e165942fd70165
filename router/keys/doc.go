// Package keys says who may use the API: which keys there are, what each may
// do and how much of it at once.
//
// Reader's path:
//
//	key.go    one key: its name, its scopes, its limit; making a new one
//	file.go   the file that keys are written in, one a line
//	guard.go  the keys that count now, and what each has in flight
//
// A key is known by its SHA-256 only. A fast hash is right here: keys are 256
// random bits, so there is nothing to guess.
//
// # Scopes
//
// infer lets a client ask an engine (every POST path), read lets it look
// (/metrics). Either may list the models, which clients do before they ask.
// admin is all
// there is, today no more than both: the data path has nothing to administer. Steering goes over
// the control socket, which no key opens.
package keys
