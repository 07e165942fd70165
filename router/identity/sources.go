package identity

import "strings"

// match is what one source says.
type match struct {
	key, parent Key
	source      string
	title       bool // the id says that this is a title call
}

// Namespaces of keys. Sources that carry the same id share one, so that a
// client that changes its spelling keeps its conversation.
const (
	nsOperator = "op"
	nsClaude   = "cc"
	nsCodex    = "cx"
	nsSession  = "sid"
	nsBody     = "body"
	nsCohort   = "pck"
)

// find asks the sources in order. What is not listed is never a key, however
// much it looks like one: x-request-id, x-client-request-id, x-correlation-id,
// traceparent, idempotency-key and x-claude-code-prompt-id change with every
// request or prompt; device_id, user, safety_identifier, API keys, cookies and
// addresses name a machine or a person with many conversations. An operator
// can still name such a header in ExtraHeaders.
func (q *query) find() (match, bool) {
	for _, source := range []func(*query) (match, bool){
		(*query).operator,
		(*query).claudeHeader,
		(*query).codexSession,
		(*query).conversationHeader,
		(*query).namedAgent,
		(*query).claudeBody,
		(*query).bodyMember,
		(*query).cohort,
	} {
		if m, ok := source(q); ok {
			return m, true
		}
	}
	return match{}, false
}

func (q *query) operator() (match, bool) {
	if v := q.headers.get("x-warden-session"); v != "" {
		m := match{key: q.scope.key(nsOperator, v, ""), source: "x-warden-session"}
		if p := q.headers.get("x-warden-parent"); p != "" {
			m.parent = q.scope.key(nsOperator, p, "")
		}
		return m, true
	}
	for _, name := range q.ExtraHeaders {
		name = normalName(name)
		if v := q.headers.get(name); v != "" {
			return match{key: q.scope.key(nsOperator, name, v), source: name}, true
		}
	}
	return match{}, false
}

// titlePrefix marks Kilo's title calls, which otherwise carry the session's id.
const titlePrefix = "title-"

func (q *query) conversationHeader() (match, bool) {
	name, v := q.headers.first("x-opencode-session", "x-session-affinity", "x-session-id",
		"x-conversation-id", "x-thread-id")
	if name == "" {
		return match{}, false
	}
	m := match{source: name}
	if rest, ok := strings.CutPrefix(v, titlePrefix); ok && rest != "" {
		v, m.title = rest, true
	}
	m.key = q.scope.key(nsSession, v, "")
	if p := q.headers.get("x-parent-session-id"); p != "" && p != v {
		m.parent = q.scope.key(nsSession, p, "")
	}
	return m, true
}

// agentHeaders are the headers of single products, each its own namespace.
var agentHeaders = []string{
	"agent-session-id", "goose-session-id", "x-amp-thread-id", "x-dynamo-session-id",
	"x-litellm-session-id", "x-bf-session-id", "x-grok-conv-id", "x-coder-chat-id",
	"x-mux-workspace-id", "x-client-session-id", "x-kilocode-taskid", "x-task-id",
	"x-roo-task-id", "x-openwebui-chat-id", "x-sgl-routing-key", "x-smg-routing-key",
}

func (q *query) namedAgent() (match, bool) {
	name, v := q.headers.first(agentHeaders...)
	if name == "" {
		name, v = q.headers.vendorSession()
	}
	if name == "" {
		return match{}, false
	}
	m := match{source: name}
	switch name {
	case "agent-session-id", "goose-session-id":
		// Goose counts its sessions per day (20260809_29): two machines have the
		// same ones.
		m.key = q.scope.key("goose", v, q.peer())
	case "x-dynamo-session-id":
		m.key = q.scope.key(name, v, "")
		if p := q.headers.get("x-dynamo-parent-session-id"); p != "" {
			m.parent = q.scope.key(name, p, "")
		}
	default:
		m.key = q.scope.key(name, v, "")
	}
	return m, true
}

// bodyMember takes the more telling members first.
func (q *query) bodyMember() (match, bool) {
	ids := &q.body.IDs
	for _, member := range [...]struct{ name, value string }{
		{"session_id", ids.SessionID},
		{"sessionId", ids.SessionIDCamel},
		{"conversation_id", ids.ConversationID},
		{"thread_id", ids.ThreadID},
		{"metadata.session_id", ids.MetadataSession},
		{"metadata.conversation_id", ids.MetadataConversation},
		{"litellm_session_id", ids.LiteLLMSession},
		{"session_params.session_id", ids.ParamsSession},
	} {
		if v, ok := usable(member.value); ok {
			return match{key: q.scope.key(nsBody, v, ""), source: "body:" + member.name}, true
		}
	}
	return match{}, false
}

// cohort uses prompt_cache_key, which by its definition groups requests with a
// common prefix: one application may send one constant. With how the
// conversation begins it names a conversation, whatever the client meant.
func (q *query) cohort() (match, bool) {
	v, ok := usable(q.body.IDs.PromptCacheKey)
	if !ok || q.body.FirstUser < 0 {
		return match{}, false
	}
	lane := hex64(q.body.Chain[q.body.FirstUser])
	return match{key: q.scope.key(nsCohort, v, lane), source: "body:prompt_cache_key"}, true
}
