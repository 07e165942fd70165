package identity

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/lm-warden/warden/router/identity/scan"
)

// codexMarks are what Codex says of a request, from headers and body.
type codexMarks struct {
	scan.CodexMarks
	conversation string // header of the oldest versions
	source       string // where the id is, as in Identity
}

// codexOf joins the marks of a request; headers win.
func codexOf(h headers, fromBody scan.CodexMarks) codexMarks {
	marks := codexMarks{conversation: h.get("conversation-id")}
	marks.source, _ = h.first("thread-id", "session-id", "conversation-id")
	marks.CodexMarks = scan.CodexMarks{
		Session: h.get("session-id"),
		Thread:  h.get("thread-id"),
		Parent:  h.get("x-codex-parent-thread-id"),
		Window:  h.get("x-codex-window-id"),
	}.Or(scan.ReadCodexMarks(h.get("x-codex-turn-metadata"))).Or(fromBody)
	for _, v := range []*string{&marks.Session, &marks.Thread, &marks.Parent} {
		*v, _ = usable(*v)
	}
	if marks.source == "" {
		marks.source = "body:client_metadata"
	}
	return marks
}

// codexSession keys by thread: session and prompt_cache_key name the root of
// all threads that a conversation has spawned. A root's thread id equals its
// session id, so versions that send only one of them get the same key. Other
// clients that send a bare session-id are served as well.
func (q *query) codexSession() (match, bool) {
	marks := &q.codex
	thread := cmp.Or(marks.Thread, marks.Session, marks.conversation)
	if thread == "" {
		return match{}, false
	}
	m := match{key: q.scope.key(nsCodex, thread, ""), source: marks.source}
	parent := cmp.Or(marks.Parent, marks.Session)
	if parent != "" && parent != thread {
		m.parent = q.scope.key(nsCodex, parent, "")
	}
	return m, true
}

// windowNumber is how often Codex has compacted the thread.
func (m *codexMarks) windowNumber() int {
	if m.Window == "" { // nearly always, and Atoi's error is an allocation
		return 0
	}
	i := strings.LastIndexByte(m.Window, ':')
	n, err := strconv.Atoi(m.Window[i+1:])
	if err != nil || n < 0 {
		return 0
	}
	return n
}
