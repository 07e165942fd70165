package identity

import (
	"cmp"
	"net"
	"net/http"
	"strings"

	"github.com/lm-warden/warden/router/identity/scan"
)

// Request is what Identify needs to know besides the body. The zero value of
// each field is fine.
type Request struct {
	Method   string
	Path     string // URL path, without query
	PeerAddr string // host:port of the client
	APIKeyID string // which configured API key authorised it, "" when none is configured
	// Model is the served model that the request goes to, after aliases.
	// "" takes the name in the body.
	Model  string
	Header http.Header
	// ExtraHeaders are further headers that the operator says name a
	// conversation, in order. They win over all but x-warden-session.
	ExtraHeaders []string
}

// Class says what a request is to its conversation.
type Class string

const (
	// Main is a turn of a conversation.
	Main Class = "main"
	// Subagent is a turn of a conversation that another one started.
	Subagent Class = "subagent"
	// Auxiliary is a side call (title, token count, embedding). It belongs to
	// no conversation and must neither place nor move one.
	Auxiliary Class = "auxiliary"
	// Compaction is a turn that asks for a summary; the history will be
	// replaced by it, so the turn after it may move without loss.
	Compaction Class = "compaction"
)

// Identity is what a request says about its conversation.
type Identity struct {
	// Key names the conversation. It is zero when the client sent no id (then
	// Index.Resolve recognises the conversation by its content) and for
	// auxiliary requests.
	Key Key
	// Parent is the conversation that started this one; for auxiliary requests,
	// the one that they belong to. It is no reason to place them together.
	Parent Key
	// Client is the program that sent the request, "" when unknown.
	Client string
	Class  Class

	Root  uint64 // see scan.Body.Root
	Turns int    // turns in the request; 0 when its content was not read

	// StatePin names state that one engine process holds (the stored response
	// or conversation that the request builds on): 32 hex digits, "" for none.
	// It outranks everything else; see PinKey.
	StatePin string
	// source is where the id was found: a header in normal form, or
	// "body:<member>"; "" when there is none.
	source string
	// hint is a weak id that joins requests when neither id nor content does.
	hint Key

	compacted bool // the client says that it has just replaced its history
	window    int  // Codex's count of compactions, 0 before the first or unknown

	chain   []uint64 // see scan.Body.Chain
	scope   uint64   // model and API key, for content hashes
	outline outline
}

// Identify says which conversation a request belongs to, by the first source
// that names one. It is a pure function of its arguments.
func Identify(r Request, b *scan.Body) Identity {
	q := newQuery(r, b)
	id := Identity{
		Client:  q.client,
		Root:    b.Root,
		chain:   b.Chain,
		Turns:   len(b.Chain),
		scope:   q.scope.sum(),
		outline: outlineOf(b),
	}
	id.StatePin = q.statePin()
	found, ok := q.find()
	if ok {
		id.Key, id.Parent, id.source = found.key, found.parent, found.source
	} else if v := q.headers.get("x-interaction-id"); v != "" {
		id.hint = q.scope.key("hint", v, "")
	}
	if id.Class = q.class(found); id.Class == Auxiliary {
		id.Key, id.Parent, id.hint = Key{}, id.Key, Key{}
	}
	id.compacted = q.headers.get("x-claude-code-context-compacted") != ""
	id.window = q.codex.windowNumber()
	return id
}

// query is one request while it is being identified.
type query struct {
	Request
	headers headers
	body    *scan.Body
	scope   scope
	client  string
	version version // of the client, zero when unknown
	codex   codexMarks
}

func newQuery(r Request, b *scan.Body) *query {
	if r.Model == "" {
		r.Model = b.Model
	}
	q := &query{Request: r, body: b, headers: normalHeaders(r.Header)}
	q.scope = scope{r.Model, r.APIKeyID}
	q.client, q.version = clientOf(r.Header.Get("User-Agent"))
	q.codex = codexOf(q.headers, b.IDs.Codex)
	return q
}

// statePin names the engine-side state that the request builds on.
func (q *query) statePin() string {
	id := q.storedResponse()
	if q.body.API == scan.Responses && id == "" {
		id = cmp.Or(q.body.PreviousResponse, q.body.Conversation)
	}
	if id == "" {
		return ""
	}
	return PinKey(q.APIKeyID, id).String()
}

// storedResponse is the id in /v1/responses/{id} and the paths below it.
func (q *query) storedResponse() string {
	rest, _ := strings.CutPrefix(q.Path, "/v1/responses/")
	if rest == q.Path {
		return ""
	}
	id, _, _ := strings.Cut(rest, "/")
	return id
}

// peer is the client's host. Its port changes with every connection.
func (q *query) peer() string {
	host, _, err := net.SplitHostPort(q.PeerAddr)
	if err != nil {
		return q.PeerAddr
	}
	return host
}
