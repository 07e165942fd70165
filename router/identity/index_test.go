package identity

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lm-warden/warden/router/identity/scan"
)

var testStart = time.Unix(1_800_000_000, 0)

// turnsOf is the Identity of a request with these turns; the first one begins
// a user turn, after that they alternate.
func turnsOf(key string, root string, turns ...string) Identity {
	var b strings.Builder
	fmt.Fprintf(&b, `{"model":"m","system":%q,"messages":[`, root)
	for i, text := range turns {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"role":%q,"content":%q}`, []string{"user", "assistant"}[i%2], text)
	}
	b.WriteString(`]}`)
	id := described(Request{Path: "/v1/messages"}, []byte(b.String()))
	if key != "" {
		id.Key = newKey(key)
	}
	return id
}

// check verifies everything that an Index says twice.
func (x *Index) check(t *testing.T) {
	t.Helper()
	through, total, roots := map[uint64]int{}, 0, map[uint64]int{}
	for e := x.recent.Front(); e != nil; e = e.Next() {
		c := e.Value.(*conversation)
		if x.byKey[c.key] != c || x.byNum[c.number] != c || c.place != e || c.inFlight < 0 {
			t.Fatalf("conversation %d is filed wrongly: %+v", c.number, c)
		}
		if len(c.values) > x.limits.Turns || c.settled > c.turns() {
			t.Fatalf("conversation %d keeps %d turns, settled %d of %d", c.number, len(c.values), c.settled, c.turns())
		}
		for _, v := range c.values {
			through[v]++
			total++
		}
		if c.shape != nil {
			roots[c.root]++
		}
		for _, v := range c.waits {
			if !slices.Contains(x.heads[v], c.number) {
				t.Fatalf("conversation %d does not wait where it says", c.number)
			}
		}
		if (c.inFlight == 0 && len(c.values) > 0) != (len(c.waits) > 0) {
			t.Fatalf("conversation %d: %d in flight, waits %v", c.number, c.inFlight, c.waits)
		}
	}
	waits := 0
	for v, numbers := range x.heads {
		for _, n := range numbers {
			waits++
			if c := x.byNum[n]; c == nil || !slices.Contains(c.waits, v) {
				t.Fatalf("a head names conversation %d, which does not wait there", n)
			}
		}
		if len(numbers) == 0 {
			t.Fatal("an empty head stayed")
		}
	}
	for v, ref := range x.turns {
		if int(ref.through) != through[v] {
			t.Fatalf("%d conversations went through a turn, filed are %d", through[v], ref.through)
		}
	}
	for root, ref := range x.roots {
		if ref.conversations != roots[root] {
			t.Fatalf("%d conversations have a root, filed are %d", roots[root], ref.conversations)
		}
	}
	if len(x.turns) != len(through) || total != x.total || len(x.roots) != len(roots) ||
		len(x.byKey) != x.Len() || len(x.byNum) != x.Len() || x.Len() > x.limits.Conversations {
		t.Fatalf("counts: %d turns, %d/%d kept, %d roots, %d conversations", len(x.turns), x.total, total, len(x.roots), x.Len())
	}
}

// Any series of requests leaves the Index consistent, and nothing in it once
// all has expired.
func FuzzIndex(f *testing.F) {
	f.Add([]byte("\x00\x01\x02\x03\x04\x05\x06\x07"))
	f.Add([]byte("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"))
	rng := rand.New(rand.NewPCG(1, 2))
	for range 4 {
		seed := make([]byte, 400)
		for i := range seed {
			seed[i] = byte(rng.Uint32())
		}
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) > 600 {
			return
		}
		x := NewIndex(Limits{Conversations: 6, Turns: 4, TotalTurns: 18, Idle: time.Minute})
		now := testStart
		var flying []Resolution
		finish := func(how Ending) {
			x.Finish(flying[0], how, now)
			flying = flying[1:]
		}
		for len(script) >= 4 {
			op := binary.LittleEndian.Uint32(script)
			script = script[4:]
			now = now.Add(time.Duration(op&7) * time.Second)
			if op>>3&1 == 1 && len(flying) > 0 {
				finish(Ending(op >> 4 & 3 % 3))
			}
			key := ""
			if op>>6&1 == 1 {
				key = fmt.Sprint(op >> 7 & 7)
			}
			turns := make([]string, op>>10&7)
			for i := range turns {
				turns[i] = fmt.Sprint(op >> (13 + i) & 1)
			}
			id := turnsOf(key, fmt.Sprint(op>>21&1), turns...)
			id.window = int(op >> 22 & 1)
			r := x.Resolve(id, now)
			if (r.Kind == KindNone) != r.Key.IsZero() {
				t.Fatalf("%+v", r)
			}
			if key != "" && r.Key != id.Key {
				t.Fatalf("the client's key was changed: %+v", r)
			}
			flying = append(flying, r)
			x.check(t)
		}
		for len(flying) > 0 {
			finish(Done)
			x.check(t)
		}
		x.expire(now.Add(time.Hour))
		x.check(t)
		if x.Len() != 0 || len(x.turns)+len(x.heads)+len(x.roots)+x.total != 0 {
			t.Fatalf("left: %d conversations, %d turns, %d heads, %d roots", x.Len(), len(x.turns), len(x.heads), len(x.roots))
		}
	})
}

// What is too large to be read belongs to a conversation only by an id.
func TestOversize(t *testing.T) {
	const path = "/v1/chat/completions"
	body := scan.Scan(path, []byte(`{"model":"m","messages":[{"role":"user","content":"`+strings.Repeat("x", 9<<20)+
		`"}],"tools":[{"name":"a"}],"prompt_cache_key":"k"}`))
	id := Identify(Request{Path: path}, body)
	if !body.Oversize || !id.Key.IsZero() || id.Class != Main {
		t.Errorf("%+v", id)
	}
	if r := NewIndex(Limits{}).Resolve(id, testStart); r.Kind != KindNone {
		t.Errorf("%+v", r)
	}
}

// A raw prompt that a client continues is the same conversation.
func TestPromptGoesOn(t *testing.T) {
	const path = "/v1/completions"
	index := NewIndex(Limits{})
	ask := func(text string) Resolution {
		r := index.Resolve(Identify(Request{Path: path}, scan.Scan(path, fmt.Appendf(nil, `{"model":"m","prompt":%q}`, text))), testStart)
		index.Finish(r, Done, testStart)
		return r
	}
	text := strings.Repeat("0123456789abcde\n", 200) // 3,200 bytes, more than three turns
	first := ask(text)
	if r := ask(text + "and more"); r.Kind != KindSame || r.Key != first.Key {
		t.Errorf("the longer prompt is %+v", r)
	}
	if r := ask("another"); r.Kind != KindNew {
		t.Errorf("another prompt is %+v", r)
	}
}

// Equal content under another API key or model is another conversation.
func TestIndexScope(t *testing.T) {
	b := scan.Scan("/v1/chat/completions", []byte(`{"model":"m","messages":[{"role":"user","content":"a"}]}`))
	b2 := scan.Scan("/v1/chat/completions", []byte(`{"model":"m","messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}]}`))
	x := NewIndex(Limits{})
	req := Request{Path: "/v1/chat/completions", APIKeyID: "alice"}
	x.Finish(x.Resolve(Identify(req, b), testStart), Done, testStart)
	for _, other := range []Request{{Path: req.Path, APIKeyID: "bob"}, {Path: req.Path, APIKeyID: "alice", Model: "n"}} {
		id := Identify(other, b2)
		if x.RootKnown(&id) {
			t.Errorf("%+v: the root is known", other)
		}
		if r := x.Resolve(id, testStart); r.Kind != KindNew {
			t.Errorf("%+v: %+v", other, r)
		}
	}
	if r := x.Resolve(Identify(req, b2), testStart); r.Kind != KindSame {
		t.Errorf("the same client: %+v", r)
	}
}

// Twins that started together and go on apart stay two conversations.
func TestTwinsGoOnApart(t *testing.T) {
	x := NewIndex(Limits{})
	first, second := x.Resolve(turnsOf("", "s", "task"), testStart), x.Resolve(turnsOf("", "s", "task"), testStart)
	x.Finish(first, Done, testStart)
	x.Finish(second, Done, testStart)
	a := x.Resolve(turnsOf("", "s", "task", "1", "go"), testStart)
	b := x.Resolve(turnsOf("", "s", "task", "2", "go"), testStart)
	if a.Kind != KindSame || b.Kind != KindSame || a.Key == b.Key || x.Len() != 2 {
		t.Errorf("%+v\n%+v", a, b)
	}
}

// A turn that failed or was cut off may be replaced without a new conversation.
func TestReplaceFailedTurn(t *testing.T) {
	for _, how := range []Ending{Done, Failed, Aborted} {
		x := NewIndex(Limits{})
		first := x.Resolve(turnsOf("", "s", "a"), testStart)
		x.Finish(first, Done, testStart)
		x.Finish(x.Resolve(turnsOf("", "s", "a", "1", "b"), testStart), how, testStart)
		r := x.Resolve(turnsOf("", "s", "a", "1", "c"), testStart)
		if same := r.Kind == KindSame && r.Key == first.Key; same == (how == Done) {
			t.Errorf("after ending %d: %+v", how, r)
		}
		if how == Done && (r.Kind != KindRewind || r.From != first.Key) {
			t.Errorf("after a good turn: %+v", r)
		}
	}
}

// A weak id joins what content cannot.
func TestHint(t *testing.T) {
	x := NewIndex(Limits{})
	ask := func(turn string) Resolution {
		id := turnsOf("", "s", turn)
		id.hint = newKey("loop")
		r := x.Resolve(id, testStart)
		x.Finish(r, Done, testStart)
		return r
	}
	if a, b := ask("a"), ask("b"); a.Kind != KindNew || b.Kind != KindSame || a.Key != b.Key {
		t.Errorf("%+v\n%+v", a, b)
	}
}

// The same request twice at once is told from a retry after a failure.
func TestBusy(t *testing.T) {
	x := NewIndex(Limits{})
	id := turnsOf("k", "s", "a")
	first := x.Resolve(id, testStart)
	second := x.Resolve(id, testStart)
	x.Finish(first, Aborted, testStart)
	x.Finish(second, Failed, testStart)
	third := x.Resolve(id, testStart)
	if first.Busy || second.Kind != KindRetry || !second.Busy || third.Kind != KindRetry || third.Busy {
		t.Errorf("%+v\n%+v\n%+v", first, second, third)
	}
}

// A beginning that many conversations share is no history to inherit.
func TestPreamble(t *testing.T) {
	for name, tt := range map[string]struct {
		env      string
		inherits int // of 20 conversations
	}{
		"short": {"directory: /src", preambleThrough - 1},
		"long":  {strings.Repeat("example ", 2000), longPreambleFrom - 1},
	} {
		x := NewIndex(Limits{})
		inherits := 0
		for i := range 20 {
			r := x.Resolve(turnsOf("", "s", tt.env, "ok", fmt.Sprint("task ", i)), testStart)
			x.Finish(r, Done, testStart)
			if !r.From.IsZero() {
				inherits++
			}
		}
		if inherits != tt.inherits || x.Len() != 20 {
			t.Errorf("%s: %d of 20 inherit, want %d; %d conversations", name, inherits, tt.inherits, x.Len())
		}
		// Its own conversation still goes on.
		if r := x.Resolve(turnsOf("", "s", tt.env, "ok", "task 7", "done", "more"), testStart); r.Kind != KindSame {
			t.Errorf("%s: next turn is %+v", name, r)
		}
	}
}

// What nobody has answered is no history, however long. A raw prompt does not
// show its answers: there all counts.
func TestUnansweredIsNoHistory(t *testing.T) {
	long := strings.Repeat("of the directory ", 2000)
	for _, c := range []struct {
		path, first, second string
		inherits            bool
	}{
		{"/v1/chat/completions", `[{"role":"user","content":%q},{"role":"user","content":"part one"}]`, `[{"role":"user","content":%q},{"role":"user","content":"part two"}]`, false},
		{"/v1/chat/completions", `[{"role":"assistant","content":%q},{"role":"user","content":"part one"}]`, `[{"role":"assistant","content":%q},{"role":"user","content":"part two"}]`, false},
		{"/v1/chat/completions", `[{"role":"user","content":%q},{"role":"assistant","content":"yes"},{"role":"user","content":"part one"}]`,
			`[{"role":"user","content":%q},{"role":"assistant","content":"yes"},{"role":"user","content":"part two"}]`, true},
		{"/v1/completions", `[%q,"part one"]`, `[%q,"part two"]`, true},
	} {
		x := NewIndex(Limits{})
		ask := func(turns string) Resolution {
			body := fmt.Sprintf(`{"messages":`+turns+`}`, long)
			if c.path == "/v1/completions" {
				body = fmt.Sprintf(`{"prompt":`+turns+`}`, long)
			}
			r := x.Resolve(Identify(Request{Path: c.path}, scan.Scan(c.path, []byte(body))), testStart)
			x.Finish(r, Done, testStart)
			return r
		}
		first := ask(c.first)
		second := ask(c.second)
		if inherits := second.From == first.Key; inherits != c.inherits || second.Key == first.Key {
			t.Errorf("%.60s: %+v after %+v", c.second, second, first)
		}
	}
}
