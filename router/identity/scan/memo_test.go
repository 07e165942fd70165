package scan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"testing"
)

// same holds a Memo's reading of a body against a plain one.
func same(t *testing.T, m *Memo, path string, body []byte) {
	t.Helper()
	if got, want := m.Scan(path, body), Scan(path, body); !reflect.DeepEqual(got, want) {
		t.Fatalf("%s %.2000s\n%+v\nwant %+v", path, body, got, want)
	}
}

// hits is how many turns of a body a Memo knows.
func hits(m *Memo, turns [][]byte) (n int) {
	w := memoWalk{memo: m}
	for _, raw := range turns {
		if w.known(raw) != nil {
			n++
			continue
		}
		w.before = Fold(w.before, w.hash(raw))
	}
	return n
}

// bodyOf is a body's JSON around turns as they stand in it.
func bodyOf(turns [][]byte) []byte {
	return joined(`{"model":"m","messages":[`, turns, `],"max_tokens":5}`)
}

func joined(open string, turns [][]byte, end string) []byte {
	return append(append([]byte(open), bytes.Join(turns, []byte(" , "))...), end...)
}

func turn(t testing.TB, role, text string) []byte {
	raw, err := json.Marshal(map[string]any{"role": role, "content": []any{map[string]any{"type": "text", "text": text}}})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// A conversation that grows is read once: each request finds all of the one
// before, also where another conversation left it.
func TestMemoKnowsTheHistory(t *testing.T) {
	m := NewMemo()
	long := strings.Repeat("words and \"quotes\" ", 20)
	var turns [][]byte
	for i := range 40 {
		if got := hits(m, turns); i > 1 && got != len(turns) {
			t.Fatalf("%d of %d turns are known", got, len(turns))
		}
		turns = append(turns, turn(t, []string{"user", "assistant"}[i%2], fmt.Sprint(long, i)))
		same(t, m, "/v1/messages", bodyOf(turns))
	}
	fork := append(append([][]byte{}, turns[:20]...), turn(t, "user", long+"another way"), turn(t, "assistant", long))
	same(t, m, "/v1/messages", bodyOf(fork))
	if got := hits(m, fork); got != len(fork) {
		t.Errorf("%d of %d turns of the fork are known", got, len(fork))
	}
	if got := hits(m, turns[1:]); got != 0 {
		t.Errorf("%d turns are known behind another beginning", got)
	}
}

// System text matters for where it lies, and what is small or no object is read
// anew: all of it as without a Memo.
func TestMemoTellsTheSame(t *testing.T) {
	long := strings.Repeat("x", 200)
	for _, turns := range [][][]byte{
		{turn(t, "system", long), turn(t, "user", long), turn(t, "system", long), turn(t, "user", "hi")},
		{[]byte(`{"name":"a","description":"` + long + `","cache_control":{}}`), []byte(`{"type":"function","function":{"name":"b","parameters":{"x":"` + long + `"}}}`), []byte(`"` + long + `"`)},
		{turn(t, "developer", long), turn(t, "assistant", long)},
		{[]byte(`"` + long + `"`), []byte(`["` + long + `"]`), []byte("null"), []byte(`{}`), turn(t, "user", long)},
		{[]byte(`{"type":"reasoning","summary":["` + long + `"]}`), turn(t, "user", long)},
		{[]byte(`{"role":"user","content":[{"type":"image","source":{"data":"` + long + `"}},{"type":"thinking","thinking":"` + long + `"}]}`)},
		{[]byte(`{"type":"function_call_output","output":"` + long + `"}`), []byte(`{"role":"tool","content":"` + long + `"}`)},
		{[]byte(`{"role":"user","content":"` + long + `}`), turn(t, "user", long)}, // its string does not end here
	} {
		m := NewMemo()
		for range 3 {
			for _, path := range fuzzPaths {
				same(t, m, path, bodyOf(turns))
				same(t, m, path, joined(`{"input":[`, turns, `],"tools":[]}`))
				same(t, m, path, joined(`{"messages":[`, turns, `],"messages":[{"role":"user","content":"other"}]}`))
				same(t, m, path, joined(`{"messages":[`, turns, ``)) // cut off
				same(t, m, path, joined(`{"functions":[{"a":1}],"tools":[`, turns, `],"messages":[]}`))
			}
		}
	}
}

// Requests use one Memo at the same time.
func TestMemoOfMany(t *testing.T) {
	m := NewMemo()
	var all sync.WaitGroup
	for c := range 8 {
		all.Go(func() {
			var turns [][]byte
			for i := range 30 {
				turns = append(turns, turn(t, "user", strings.Repeat(fmt.Sprint(c%4, i), 60)))
				same(t, m, "/v1/chat/completions", bodyOf(turns))
			}
		})
	}
	all.Wait()
}

// FuzzMemo reads what was cut, repeated and changed at any place after the whole.
func FuzzMemo(f *testing.F) {
	for _, g := range goldenBodies(f) {
		f.Add(uint8(len(g)), g, uint64(len(g)))
	}
	f.Add(uint8(0), agentBody(60_000), uint64(1))
	f.Fuzz(func(t *testing.T, path uint8, body []byte, seed uint64) {
		m, p := NewMemo(), fuzzPaths[int(path)%len(fuzzPaths)]
		r := rand.New(rand.NewPCG(seed, 1))
		same(t, m, p, body)
		same(t, m, p, body)
		for range 4 {
			changed := bytes.Clone(body)
			if len(changed) > 0 {
				changed[r.IntN(len(changed))] = "\"\\{}[],x:"[r.IntN(9)]
			}
			same(t, m, p, changed)
			same(t, m, p, body[:r.IntN(len(body)+1)])
			same(t, m, p, body)
		}
	})
}
