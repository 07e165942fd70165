// Package dialect holds what differs between the APIs that clients speak:
// OpenAI's chat, completions, responses and embeddings, and Anthropic's
// messages. It knows their error shapes, where an answer states its tokens,
// what ends a stream, and nothing of replicas or connections.
//
// Read errors.go (what a client is told), overflow.go (an engine's refusal in
// words that clients act on), usage.go (what an answer says about itself),
// mend.go (a figure in it that misleads) and stream.go (both for an event
// stream, in pieces as they arrive). Everything is a pure function of bytes; Stream holds bounded memory
// whatever an engine sends.
package dialect

// API is one request format and its answers.
type API uint8

// The APIs a path can speak. Plain covers routes whose answers carry neither
// tokens nor streams (tokenize, detokenize, models).
const (
	Plain API = iota
	Chat
	Completions
	Responses
	Embeddings
	Messages
	CountTokens
)

// Anthropic reports whether errors have Anthropic's shape.
func (a API) Anthropic() bool { return a == Messages || a == CountTokens }

// Generates reports whether the engine runs the model for it, so that the
// answer states how many prompt tokens there were.
func (a API) Generates() bool {
	return a == Chat || a == Completions || a == Responses || a == Embeddings || a == Messages
}

// UsageOnDemand reports whether a stream states its tokens only when the
// request asked with stream_options.include_usage.
func (a API) UsageOnDemand() bool { return a == Chat || a == Completions }
