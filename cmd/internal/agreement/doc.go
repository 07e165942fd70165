// Package agreement holds the simulated engine against vLLM: the same turns,
// one after the other, and the same figures expected of each.
//
// A script is drawn from a seed and does not depend on the answers, which are
// forced (allowed_token_ids), so that both engines are asked the very same
// bytes. It is made of what agents do to a prefix cache: conversations that
// share a system prompt, grow, fork, are sent twice, edited and compacted, more
// of them than the KV cache holds.
//
//	script.go     the turns
//	ask.go        one turn, and what the engine says of it
//	compare.go    where two engines differ
//	explain.go    the difference that is known, and the proof that it is that one
//
// The tests play a script on two simulated engines; with the build tag vllm
// (`make test-vllm`) on vLLM's CPU build and a simulated one.
package agreement
