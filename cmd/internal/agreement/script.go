package agreement

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// Model is the name that a script asks for.
const Model = "tiny"

// Turn is one request.
type Turn struct {
	N    int
	Kind string // what the conversation does with it
	Path string
	Body []byte
	// Stopped is the number of tokens after which a stop string ends the
	// answer; 0: none does.
	Stopped int
}

// The forced answers: which byte, and how many tokens at most.
const (
	answerToken = 'y'
	maxAnswer   = 60
	stopAfter   = 8 // length of the stop string
)

// Shapes of a script, in tokens: a byte is a token of the built-in model. With
// a KV cache of about 3,000 tokens a handful of conversations overflows it.
const (
	systems    = 3
	openAtOnce = 7
	lastTurn   = 9
	maxPrompt  = 2000
)

// message is one entry of a conversation.
type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// talk is a conversation under way.
type talk struct {
	messages []message
	turns    int
	salt     string
}

func (t *talk) length() int {
	n := 0
	for _, m := range t.messages {
		n += len(m.Role) + len(m.Content) + 4 // two special tokens, two line breaks
	}
	return n
}

func (t *talk) fork() *talk {
	return &talk{messages: slices.Clone(t.messages), turns: t.turns, salt: t.salt}
}

// author draws a script.
type author struct {
	rng     *rand.Rand
	systems []string
	open    []*talk
}

// Script draws n turns. Equal seeds give equal scripts.
func Script(seed uint64, n int) []Turn {
	a := &author{rng: rand.New(rand.NewPCG(seed, 1))}
	for range systems {
		a.systems = append(a.systems, a.text(200, 500))
	}
	turns := make([]Turn, n)
	for i := range turns {
		turns[i] = a.turn(i)
	}
	return turns
}

// text is between low and high bytes that no other text begins with.
func (a *author) text(low, high int) string {
	n := low + a.rng.IntN(high-low+1)
	var b strings.Builder
	for b.Len() < n {
		fmt.Fprintf(&b, "%x ", a.rng.Uint32())
	}
	return b.String()[:n]
}

// turn lets one of the open conversations, or a new one, say something.
func (a *author) turn(i int) Turn {
	if a.rng.IntN(100) < 8 {
		return a.completion(i)
	}
	kind, t := a.choose()
	answer := 1 + a.rng.IntN(maxAnswer)
	out := Turn{N: i, Kind: kind, Path: "/v1/chat/completions"}
	body := map[string]any{
		"model": Model, "messages": t.messages, "max_tokens": answer,
		"allowed_token_ids": []int{answerToken}, "ignore_eos": true,
	}
	if t.salt != "" {
		body["cache_salt"] = t.salt
	}
	if a.rng.IntN(100) < 5 && answer > stopAfter {
		out.Kind, out.Stopped = out.Kind+", stopped", stopAfter
		body["stop"] = []string{strings.Repeat(string(rune(answerToken)), stopAfter)}
		answer = 0 // a stop string is not part of the answer
	}
	out.Body = encode(body)
	t.messages = append(t.messages, message{"assistant", strings.Repeat(string(rune(answerToken)), answer)})
	t.turns++
	return out
}

// choose returns a conversation that has just got a message from its user, and
// what was done to it.
func (a *author) choose() (kind string, t *talk) {
	a.open = slices.DeleteFunc(a.open, func(t *talk) bool { return t.turns >= lastTurn || t.length() > maxPrompt })
	if len(a.open) < openAtOnce && (len(a.open) == 0 || a.rng.IntN(3) == 0) {
		return a.begin()
	}
	t = a.open[a.rng.IntN(len(a.open))]
	switch draw := a.rng.IntN(100); {
	case draw < 10:
		kind, t = "fork", t.fork()
		t.messages = t.messages[:1+2*a.rng.IntN(len(t.messages)/2+1)] // system, then whole exchanges
		a.open[a.rng.IntN(len(a.open))] = t
	case draw < 15:
		// What was asked last is asked again: its answer is dropped.
		t.messages = t.messages[:len(t.messages)-1]
		return "again", t
	case draw < 20:
		kind = "edit"
		t.messages[1+a.rng.IntN(len(t.messages)-1)].Content = a.text(20, 100)
	case draw < 25:
		kind = "compaction"
		t.messages = append(t.messages[:1:1], message{"user", a.text(100, 300)}, message{"assistant", "ok"})
	default:
		kind = "next"
	}
	t.messages = append(t.messages, message{"user", a.text(20, 200)})
	return kind, t
}

func (a *author) begin() (string, *talk) {
	kind, t := "first", &talk{messages: []message{{"system", a.systems[a.rng.IntN(systems)]}}}
	if a.rng.IntN(10) == 0 {
		kind, t.salt = "first, salted", "salt"
	}
	t.messages = append(t.messages, message{"user", a.text(100, 700)})
	a.open = append(a.open, t)
	return kind, t
}

// completion is a bare prompt that begins like a conversation's text.
func (a *author) completion(i int) Turn {
	prompt := a.systems[a.rng.IntN(systems)][:100+a.rng.IntN(100)] + a.text(1, 400)
	return Turn{N: i, Kind: "bare prompt", Path: "/v1/completions", Body: encode(map[string]any{
		"model": Model, "prompt": prompt, "max_tokens": 1 + a.rng.IntN(maxAnswer),
		"allowed_token_ids": []int{answerToken}, "ignore_eos": true,
	})}
}

func encode(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic("agreement: texts and numbers always marshal: " + err.Error())
	}
	return raw
}
