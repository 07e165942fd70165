package identity

// bodyIDs are the body's members that may name a conversation. They are read
// by Identify, which turns them into keys; nothing else sees them.
type bodyIDs struct {
	userID         string // metadata.user_id
	promptCacheKey string
	named          [8]string // the plain members, by precedence
	codex          codexIDs  // client_metadata
}

// Positions in bodyIDs.named, the more telling names first.
const (
	idSession = iota
	idSessionCamel
	idConversation
	idThread
	idMetadataSession
	idMetadataConversation
	idLiteLLM
	idSessionParams
)

// idMember consumes a top-level member that holds ids.
func (s *scanner) idMember(name string) {
	ids := &s.body.ids
	switch name {
	case "prompt_cache_key":
		ids.promptCacheKey = s.id()
	case "session_id":
		ids.named[idSession] = s.id()
	case "sessionId":
		ids.named[idSessionCamel] = s.id()
	case "conversation_id":
		ids.named[idConversation] = s.id()
	case "thread_id":
		ids.named[idThread] = s.id()
	case "litellm_session_id":
		ids.named[idLiteLLM] = s.id()
	case "metadata":
		ids.userID = ""
		ids.named[idMetadataSession], ids.named[idMetadataConversation] = "", ""
		s.members(func(key []byte) {
			switch string(key) {
			case "user_id":
				ids.userID = s.id()
			case "session_id":
				ids.named[idMetadataSession] = s.id()
			case "conversation_id":
				ids.named[idMetadataConversation] = s.id()
			default:
				s.skip()
			}
		})
	case "session_params":
		ids.named[idSessionParams] = ""
		s.members(func(key []byte) {
			if string(key) == "session_id" {
				ids.named[idSessionParams] = s.id()
				return
			}
			s.skip()
		})
	case "client_metadata":
		ids.codex = s.codexIDs()
	}
}

// id consumes any value and returns a string's or a number's text.
func (s *cursor) id() string {
	if s.next() == '"' {
		return string(s.text())
	}
	raw := s.skip().of(s.src)
	if len(raw) > 0 && raw[0] >= '0' && raw[0] <= '9' {
		return string(raw)
	}
	return ""
}
