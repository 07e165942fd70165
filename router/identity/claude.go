package identity

import (
	"fmt"
	"strings"

	"github.com/lm-warden/warden/router/identity/scan"
)

// Claude Code sends one session id for the main conversation, its sub-agents,
// titles and token counts. Sub-agents have another system prompt and other
// tools, so they share no prefix with the main conversation and are
// conversations of their own: the session id is divided into lanes.
const mainLane = "main"

// agentIDVersion is the first Claude Code that marks sub-agents by header.
// Before it, what tells them apart is how their prompt begins.
var agentIDVersion = version{2, 1, 139}

func (q *query) claudeHeader() (match, bool) {
	session := q.headers.get("x-claude-code-session-id")
	if session == "" {
		return match{}, false
	}
	m := match{source: "x-claude-code-session-id"}
	agent := q.headers.get("x-claude-code-agent-id")
	if agent == "" {
		m.key = q.scope.key(nsClaude, session, q.claudeLane())
		return m, true
	}
	parent := q.headers.get("x-claude-code-parent-agent-id")
	if parent == "" {
		parent = mainLane
	}
	m.key = q.scope.key(nsClaude, session, agent)
	m.parent = q.scope.key(nsClaude, session, parent)
	return m, true
}

// claudeLane is the lane of a request without an agent id.
func (q *query) claudeLane() string {
	marksAgents := q.client != ClaudeCode || !q.version.before(agentIDVersion)
	if marksAgents || q.body.Root == 0 {
		return mainLane
	}
	return hex64(q.body.Root)
}

// claudeBody reads metadata.user_id, which holds Claude Code's session id
// where the header is missing (up to 2.1.85, or stripped by a proxy).
func (q *query) claudeBody() (match, bool) {
	session, ok := claudeSession(q.body.IDs.UserID)
	if !ok {
		return match{}, false
	}
	// No agent header came either, so the beginning of the prompt must tell.
	lane := mainLane
	if q.body.Root != 0 {
		lane = hex64(q.body.Root)
	}
	return match{key: q.scope.key(nsClaude, session, lane), source: "body:metadata.user_id"}, true
}

// claudeSession finds the session id in a user_id of either form:
//
//	{"device_id":"<64 hex>","account_uuid":"","session_id":"<uuid>"}
//	user_<64 hex>_account_<uuid or nothing>_session_<uuid>
//
// Any other user_id names a person, not a conversation.
func claudeSession(userID string) (string, bool) {
	if strings.HasPrefix(userID, "{") {
		session, ok := scan.TextMember(userID, "session_id")
		if !ok {
			return "", false
		}
		return usable(session)
	}
	const mark = "_session_"
	i := strings.LastIndex(userID, mark)
	if i < 0 {
		return "", false
	}
	session := userID[i+len(mark):]
	return session, isUUID(session)
}

func isUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	return strings.Trim(s, "0123456789abcdefABCDEF-") == ""
}

func hex64(v uint64) string { return fmt.Sprintf("%016x", v) }
