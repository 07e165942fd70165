// Package anthropic is the simulated engine's side of Anthropic's Messages API
// as vLLM serves it.
//
// Reading order:
//
//	body.go     the body, and the conversation it comes down to
//	message.go  the answer, whole
//	stream.go   and as a stream
//	count.go    how many tokens a body has
//
// The shapes follow the source of vLLM 0.32.0, field order and nulls included.
package anthropic
