package identity

import (
	"strconv"
	"strings"
)

// codexIDs are Codex's marks on a request. They come as headers, as members of
// client_metadata, or as JSON within either, depending on its version and on
// what a proxy lets through.
type codexIDs struct {
	session, thread, parent string
	conversation            string // header of the oldest versions
	source                  string
	window                  string // <uuid>:<n>, n counts compactions
	kind                    string // request_kind: "compaction"
	threadSource            string // "subagent"
}

// codexIDs consumes client_metadata.
func (c *cursor) codexIDs() (ids codexIDs) {
	c.members(func(key []byte) {
		switch string(key) {
		case "session_id":
			ids.session = c.id()
		case "thread_id":
			ids.thread = c.id()
		case "x-codex-parent-thread-id", "parent_thread_id":
			ids.parent = c.id()
		case "x-codex-window-id", "window_id":
			ids.window = c.id()
		case "request_kind":
			ids.kind = c.id()
		case "thread_source":
			ids.threadSource = c.id()
		case "x-codex-turn-metadata":
			inner := cursor{src: c.optionalText()}
			ids = ids.or(inner.codexIDs())
		default:
			c.skip()
		}
	})
	return ids
}

// or fills what is missing in ids from other.
func (ids codexIDs) or(other codexIDs) codexIDs {
	fill := func(to *string, from string) {
		if *to == "" {
			*to = from
		}
	}
	fill(&ids.session, other.session)
	fill(&ids.thread, other.thread)
	fill(&ids.parent, other.parent)
	fill(&ids.window, other.window)
	fill(&ids.kind, other.kind)
	fill(&ids.threadSource, other.threadSource)
	return ids
}

// codexOf joins the marks of a request; headers win.
func codexOf(h headers, fromBody codexIDs) codexIDs {
	ids := codexIDs{
		session:      h.get("session-id"),
		thread:       h.get("thread-id"),
		conversation: h.get("conversation-id"),
		parent:       h.get("x-codex-parent-thread-id"),
		window:       h.get("x-codex-window-id"),
	}
	ids.source, _ = h.first("thread-id", "session-id", "conversation-id")
	inner := cursor{src: []byte(h.get("x-codex-turn-metadata"))}
	ids = ids.or(inner.codexIDs()).or(fromBody)
	for _, v := range []*string{&ids.session, &ids.thread, &ids.parent} {
		*v, _ = usable(*v)
	}
	if ids.source == "" {
		ids.source = "body:client_metadata"
	}
	return ids
}

// codexSession keys by thread: session and prompt_cache_key name the root of
// all threads that a conversation has spawned. A root's thread id equals its
// session id, so versions that send only one of them get the same key. Other
// clients that send a bare session-id are served as well.
func (q *query) codexSession() (match, bool) {
	ids := q.codex
	thread := ids.thread
	if thread == "" {
		thread = ids.session
	}
	if thread == "" {
		thread = ids.conversation
	}
	if thread == "" {
		return match{}, false
	}
	m := match{key: q.scope.key(nsCodex, thread, ""), source: ids.source}
	parent := ids.parent
	if parent == "" {
		parent = ids.session
	}
	if parent != "" && parent != thread {
		m.parent = q.scope.key(nsCodex, parent, "")
	}
	return m, true
}

// windowNumber is how often Codex has compacted the thread.
func (ids codexIDs) windowNumber() int {
	if ids.window == "" {
		return 0
	}
	i := strings.LastIndexByte(ids.window, ':')
	n, err := strconv.Atoi(ids.window[i+1:])
	if err != nil || n < 0 {
		return 0
	}
	return n
}
