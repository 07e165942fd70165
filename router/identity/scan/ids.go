package scan

// IDs are the members that may name a conversation, or a person or a machine
// with many. Each is the text of a string or a number as sent, "" where it is
// missing or anything else.
type IDs struct {
	SessionID            string     // session_id
	SessionIDCamel       string     // sessionId
	ConversationID       string     // conversation_id
	ThreadID             string     // thread_id
	LiteLLMSession       string     // litellm_session_id
	ParamsSession        string     // session_params.session_id
	PromptCacheKey       string     // prompt_cache_key
	UserID               string     // metadata.user_id
	MetadataSession      string     // metadata.session_id
	MetadataConversation string     // metadata.conversation_id
	Codex                CodexMarks // client_metadata
}

// idMember consumes a top-level member that holds ids.
func (s *scanner) idMember(name string) {
	ids := &s.body.IDs
	switch name {
	case "prompt_cache_key":
		ids.PromptCacheKey = s.id()
	case "session_id":
		ids.SessionID = s.id()
	case "sessionId":
		ids.SessionIDCamel = s.id()
	case "conversation_id":
		ids.ConversationID = s.id()
	case "thread_id":
		ids.ThreadID = s.id()
	case "litellm_session_id":
		ids.LiteLLMSession = s.id()
	case "metadata":
		ids.UserID, ids.MetadataSession, ids.MetadataConversation = "", "", ""
		s.members(func(key []byte) {
			switch string(key) {
			case "user_id":
				ids.UserID = s.id()
			case "session_id":
				ids.MetadataSession = s.id()
			case "conversation_id":
				ids.MetadataConversation = s.id()
			default:
				s.skip()
			}
		})
	case "session_params":
		ids.ParamsSession = ""
		s.members(func(key []byte) {
			if string(key) == "session_id" {
				ids.ParamsSession = s.id()
				return
			}
			s.skip()
		})
	case "client_metadata":
		ids.Codex = s.codexMarks()
	}
}

// id consumes any value and returns a string's or a number's text.
func (c *cursor) id() string {
	if c.next() == '"' {
		return string(c.text())
	}
	raw := c.skip().of(c.src)
	if len(raw) > 0 && raw[0] >= '0' && raw[0] <= '9' {
		return string(raw)
	}
	return ""
}

// CodexMarks are what Codex says of a request, each as sent, "" where missing.
// They are members of client_metadata, or of JSON text in one of those or in a
// header, depending on its version and on what a proxy lets through.
type CodexMarks struct {
	Session, Thread, Parent string // ids
	Window                  string // <uuid>:<n>, n counts compactions
	Kind                    string // "compaction", or the like
	ThreadSource            string // "subagent", or the like
}

// ReadCodexMarks reads the marks in a JSON object; none, or those before the
// first error, where object is something else.
func ReadCodexMarks(object string) CodexMarks {
	c := cursor{src: []byte(object)}
	return c.codexMarks()
}

// codexMarks consumes client_metadata.
func (c *cursor) codexMarks() (m CodexMarks) {
	c.members(func(key []byte) {
		switch string(key) {
		case "session_id":
			m.Session = c.id()
		case "thread_id":
			m.Thread = c.id()
		case "x-codex-parent-thread-id", "parent_thread_id":
			m.Parent = c.id()
		case "x-codex-window-id", "window_id":
			m.Window = c.id()
		case "request_kind":
			m.Kind = c.id()
		case "thread_source":
			m.ThreadSource = c.id()
		case "x-codex-turn-metadata":
			inner := cursor{src: c.optionalText()}
			m = m.Or(inner.codexMarks())
		default:
			c.skip()
		}
	})
	return m
}

// Or returns m with what is missing in it taken from other.
func (m CodexMarks) Or(other CodexMarks) CodexMarks {
	fill := func(to *string, from string) {
		if *to == "" {
			*to = from
		}
	}
	fill(&m.Session, other.Session)
	fill(&m.Thread, other.Thread)
	fill(&m.Parent, other.Parent)
	fill(&m.Window, other.Window)
	fill(&m.Kind, other.Kind)
	fill(&m.ThreadSource, other.ThreadSource)
	return m
}

// TextMember returns the text of a JSON object's string member of that name, ""
// where there is none; ok is false where object is not JSON.
func TextMember(object, name string) (value string, ok bool) {
	c := cursor{src: []byte(object)}
	value = c.textMember(name)
	return value, !c.bad
}
