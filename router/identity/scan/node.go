package scan

import "github.com/cespare/xxhash/v2"

// A node is one object of a conversation: a message, an item of the Responses
// API, a part of a message's content, or a tool call. All of them are read by
// one rule, because clients write the same turn in different forms as it
// ages: a plain string becomes a list of one text part and back,
// cache_control moves on every turn, ids and status fields come and go.
type node struct {
	kind    kind
	typed   uint64 // hash of the type field
	role    uint64 // hash of the role, developer counted as system
	speaker role
	text    uint64 // hash of the text of a text part
	known   uint64 // sum over the fields that make a message
	all     uint64 // known plus every other field
	size    int    // bytes of decoded text that the model will read
	roleAt  span   // the role's value, quotes included
}

type kind uint8

const (
	kindMessage   kind = iota // no type, or "message"
	kindText                  // text, input_text, output_text
	kindReasoning             // thinking, redacted_thinking, reasoning
	kindImage                 // image, image_url, input_image
	kindCall                  // a tool call as an item of its own (Responses)
	kindOutput                // its result
	kindOther
)

type role uint8

const (
	roleNone role = iota
	roleUser
	roleAssistant
	roleSystem
	roleTool
)

func kindOf(value []byte) kind {
	switch string(value) {
	case "", "message":
		return kindMessage
	case "text", "input_text", "output_text":
		return kindText
	case "thinking", "redacted_thinking", "reasoning":
		return kindReasoning
	case "image", "image_url", "input_image":
		return kindImage
	case "function_call", "custom_tool_call", "local_shell_call":
		return kindCall
	case "function_call_output", "custom_tool_call_output", "local_shell_call_output":
		return kindOutput
	}
	return kindOther
}

func roleOf(value []byte) role {
	switch string(value) {
	case "user":
		return roleUser
	case "assistant":
		return roleAssistant
	case "system", "developer":
		return roleSystem
	case "tool", "function":
		return roleTool
	}
	return roleNone
}

// hash is the node's canonical value; ok is false for what a template may
// drop as it ages (reasoning) and for empty text.
func (n *node) hash() (sum uint64, ok bool) {
	switch {
	case n.kind == kindReasoning:
		return 0, false
	case n.kind == kindText:
		return Fold(tagText, n.text), n.size > 0
	case n.kind == kindMessage && n.speaker != roleNone:
		return Fold(n.role, n.known), true
	}
	return Fold(Fold(n.typed, n.role), n.all), true
}

// by names who speaks in a turn of its own.
func (n *node) by() role {
	switch n.kind {
	case kindCall:
		return roleAssistant
	case kindOutput:
		return roleTool
	}
	return n.speaker
}

// read consumes one object into n, which must be empty.
func (n *node) read(s *scanner, depth int) {
	if depth == 0 {
		n.typed = xxhash.Sum64(s.skip().of(s.src))
		n.kind, n.all = kindOther, n.typed
		return
	}
	if s.next() == '"' { // a bare string in a list of parts or input items
		n.kind = kindText
		n.text, n.size = s.plainText(depth)
		return
	}
	s.members(func(key []byte) { s.field(n, key, depth) })
}

// field consumes the value of one member of a node.
func (s *scanner) field(n *node, key []byte, depth int) {
	switch string(key) {
	case "id", "status", "annotations", "citations", "cache_control", "index", "logprobs",
		"thinking", "signature", "reasoning_details", "encrypted_content":
		s.skip()
	case "reasoning", "reasoning_content":
		if at := s.skip(); at.end-at.start > len(`""`) && s.src[at.start] == '"' {
			s.body.Reasoning++
		}
	case "type":
		value := s.optionalText()
		n.kind, n.typed = kindOf(value), xxhash.Sum64(value)
	case "role":
		n.roleAt.start = s.valueAt()
		value := s.optionalText()
		n.roleAt.end = s.pos
		n.speaker, n.role = roleOf(value), xxhash.Sum64(value)
		if n.speaker == roleSystem {
			n.role = xxhash.Sum64String("system")
		}
	default:
		sum, size, use := s.value(n, key, depth)
		n.size += size
		if use == useNothing {
			return
		}
		member := Fold(xxhash.Sum64(key), sum)
		n.all += member
		if use == useAlways {
			n.known += member
		}
	}
}

// use says where a member counts. A message's fields other than those that
// make a message are the client's own notes; a part's other fields are what it
// holds (an image, a document, an error mark).
type use uint8

const (
	useNothing use = iota // it says nothing
	usePart               // in all but messages
	useAlways
)

// value consumes the value of a member that a model may read.
func (s *scanner) value(n *node, key []byte, depth int) (sum uint64, size int, where use) {
	var ok bool
	// A conversion within a comparison copies nothing; one for all would.
	switch next := s.next(); {
	case string(key) == "text" && next == '"':
		n.text, size = s.plainText(depth)
		return n.text, size, usePart
	case string(key) == "content" || string(key) == "output":
		sum, size, ok = s.content(depth)
	case string(key) == "tool_calls":
		sum, size, ok = s.parts(depth)
	case (string(key) == "function" || string(key) == "function_call") && next == '{':
		var call node
		call.read(s, depth-1)
		sum, size, ok = call.all, call.size, true
	case string(key) == "arguments" && next == '"':
		sum, size = s.hashArguments(s.quoted())
		ok = size > 0
	case string(key) == "input" || string(key) == "arguments":
		start := s.pos
		sum, ok = s.hashValue(&s.cursor, maxDepth), true
		size = s.pos - start
	case string(key) == "name" || string(key) == "tool_call_id" || string(key) == "refusal":
		sum, size, ok = s.scalar()
	default:
		if sum, _, ok = s.scalar(); ok {
			return sum, 0, usePart
		}
	}
	if ok {
		return sum, size, useAlways
	}
	return sum, size, useNothing
}

// content consumes a message's content: a string stands for one text part.
func (s *scanner) content(depth int) (sum uint64, size int, ok bool) {
	switch s.next() {
	case '"':
		text, size := s.plainText(depth - 1)
		return Fold(tagArray, Fold(tagText, text)), size, size > 0
	case '[':
		return s.parts(depth)
	}
	sum, _, ok = s.scalar()
	return sum, 0, ok
}

// parts consumes a list of nodes; ok is false when nothing of it counts, so
// that null, "", [] and a missing field are the same.
func (s *scanner) parts(depth int) (sum uint64, size int, ok bool) {
	sum = tagArray
	s.elements(func() {
		var part node
		part.read(s, depth-1)
		switch part.kind {
		case kindReasoning:
			s.body.Reasoning++
		case kindImage:
			s.body.Images++
		}
		if h, counts := part.hash(); counts {
			sum, ok = Fold(sum, h), true
			size += part.size
		}
	})
	return sum, size, ok
}

// scalar consumes any value. Strings hash decoded, others as written; ok is
// false for values that say nothing.
func (s *scanner) scalar() (sum uint64, size int, ok bool) {
	if s.next() == '"' {
		sum, size = s.hashText(s.quoted())
		return sum, size, size > 0
	}
	raw := s.skip().of(s.src)
	switch string(raw) {
	case "null", "false", "[]", "{}", "":
		return 0, 0, false
	}
	return xxhash.Sum64(raw), 0, true
}

// partDepth is the depth budget of a content part; messages have one more.
const partDepth, messageDepth = maxDepth - 1, maxDepth

// maxTexts bounds the memory that many small texts cost.
const maxTexts = 1 << 12

// text is a string of prompt text: where it lies, and its hash.
type text struct {
	span
	sum uint64
}

// plainText consumes a string of prompt text and remembers where it lay when
// it belongs to a message itself and not to a tool's result within it.
func (s *scanner) plainText(depth int) (sum uint64, size int) {
	q := s.quoted()
	sum, size = s.hashText(q)
	if depth >= partDepth && !s.bad && len(s.texts)+len(s.leading) < maxTexts {
		s.texts = append(s.texts, text{span{s.pos - 1 - len(q.raw), s.pos - 1}, sum})
	}
	return sum, size
}
