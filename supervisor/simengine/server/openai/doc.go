// Package openai is the simulated engine's side of OpenAI's APIs as vLLM serves
// them: chat completions, completions, responses, embeddings, and vLLM's own
// tokenize and detokenize.
//
// Reading order:
//
//	content.go          what the bodies share: contents, prompts
//	chat.go             a chat, whole
//	completion.go       a completion, whole
//	reply.go, usage.go  what the two share
//	stream.go           and as a stream
//	responses.go        the body of the Responses API
//	response.go         its answer, whole
//	responsestream.go   and as a stream
//	embeddings.go       vectors that mean nothing
//	tokenize.go         tokens of a text or chat, and back
//
// The shapes follow the source of vLLM 0.32.0, field order and nulls included.
package openai
