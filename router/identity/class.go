package identity

import (
	"strconv"
	"strings"

	"github.com/lm-warden/warden/router/identity/scan"
)

// ClaudeCode is its name in Identity.Client.
const ClaudeCode = "claude-code"

// Other clients that need rules of their own.
const (
	clientCodex    = "codex"
	clientOpencode = "opencode"
	clientKilo     = "kilo"
)

// products maps the beginning of a User-Agent's product to the client's name.
// Agents come before the libraries that they are built on.
var products = []struct{ prefix, client string }{
	{"claude-cli/", ClaudeCode},
	{"codex", clientCodex},
	{"opencode/", clientOpencode},
	{"kilo-code/", clientKilo},
	{"qwencode/", "qwen-code"},
	{"qwen-code/", "qwen-code"},
	{"geminicli/", "gemini-cli"},
	{"ls/js", "continue"},
	{"cline/", "cline"},
	{"roocode/", "roo"},
	{"roo-code/", "roo"},
	{"crush/", "crush"},
	{"goose/", "goose"},
	{"zed/", "zed"},
	{"openhands", "openhands"},
	{"githubcopilot", "copilot"},
	{"litellm/", "litellm"},
	{"langchain", "langchain"},
	{"ai-sdk/", "ai-sdk"},
	{"openai/", "openai-sdk"},
	{"asyncopenai/", "openai-sdk"},
	{"anthropic/", "anthropic-sdk"},
	{"asyncanthropic/", "anthropic-sdk"},
	{"curl/", "curl"},
}

// clientOf names the program behind a User-Agent and its version. Programs
// append what they are built on, so all products are looked at.
func clientOf(userAgent string) (string, version) {
	words := strings.Fields(strings.ToLower(userAgent))
	for _, p := range products {
		for _, w := range words {
			if strings.HasPrefix(w, p.prefix) {
				_, v, _ := strings.Cut(w, "/")
				return p.client, parseVersion(v)
			}
		}
	}
	return "", version{}
}

// version is major, minor, patch; all zero when unknown.
type version [3]int

func parseVersion(s string) (v version) {
	for i, part := range strings.SplitN(s, ".", 3) {
		end := strings.IndexFunc(part, func(r rune) bool { return r < '0' || r > '9' })
		if end < 0 {
			end = len(part)
		}
		n, err := strconv.Atoi(part[:end])
		if err != nil {
			return version{}
		}
		v[i] = n
	}
	return v
}

// before reports whether v is known and older than other.
func (v version) before(other version) bool {
	for i := range v {
		if v[i] != other[i] {
			return v != version{} && v[i] < other[i]
		}
	}
	return false
}

// class says what the request is to the conversation that found names.
// A request with tools is never auxiliary: only an agent's own loop has any.
func (q *query) class(found match) Class {
	switch q.body.API {
	case scan.CountTokens, scan.Embeddings, scan.Other:
		return Auxiliary
	}
	if q.storedResponse() != "" {
		return Auxiliary
	}
	noTools := q.body.Valid && q.body.Tools == 0
	switch hint := q.headers.get("x-claude-code-request-class"); {
	case hint == "auxiliary" && q.body.Tools == 0:
		return Auxiliary
	case hint == "compaction", q.headers.get("x-claude-code-compaction") != "",
		q.codex.Kind == "compaction":
		return Compaction
	case hint == "subagent", hint == "workflow":
		return Subagent
	case hint == "main":
		return Main
	case found.title && q.body.Tools == 0:
		return Auxiliary
	case noTools && (q.client == ClaudeCode || q.client == clientOpencode || q.client == clientKilo):
		return Auxiliary
	case !found.parent.IsZero(), q.codex.ThreadSource == "subagent",
		q.headers.get("x-openai-subagent") != "":
		return Subagent
	}
	return Main
}
