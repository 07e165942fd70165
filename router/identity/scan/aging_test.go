package scan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// Random conversations whose turns change form as they age are always linked.
func TestAgingKeepsHistory(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 11))
	for round := range 300 {
		history := make([]agingTurn, 2+rng.IntN(8))
		for i := range history {
			history[i] = randomTurn(rng, i)
		}
		a := Scan("/v1/messages", writeAged(rng, history[:len(history)-1]))
		b := Scan("/v1/messages", writeAged(rng, history))
		if !a.Valid || !b.Valid || a.Root != b.Root || !slices.Equal(a.Chain, b.Chain[:len(a.Chain)]) {
			t.Fatalf("round %d: %x is not the beginning of %x", round, a.Chain, b.Chain)
		}
	}
}

type agingTurn struct {
	role  string
	texts []string
	tool  string
}

func randomTurn(rng *rand.Rand, i int) agingTurn {
	turn := agingTurn{role: []string{"user", "assistant"}[i%2]}
	for range 1 + rng.IntN(3) {
		turn.texts = append(turn.texts, strings.Repeat([]string{"a\n", "é", "\"q\"", "\\", "😀/", "\x1b["}[rng.IntN(6)], 1+rng.IntN(2000)))
	}
	if rng.IntN(2) == 0 {
		turn.tool = fmt.Sprint("tool", rng.IntN(3))
	}
	return turn
}

// writeAged writes a history with everything at random that clients change.
func writeAged(rng *rand.Rand, history []agingTurn) []byte {
	maybe := func(s string) string {
		if rng.IntN(2) == 0 {
			return s
		}
		return ""
	}
	text := func(s string) string {
		q := quote(s)
		if rng.IntN(2) == 0 {
			q = strings.ReplaceAll(q, "é", `\u00e9`)
		}
		return q
	}
	var messages []string
	for _, turn := range history {
		var parts []string
		if turn.role == "assistant" && rng.IntN(2) == 0 {
			parts = append(parts, `{"type":"thinking","thinking":"hm","signature":"s"}`)
		}
		for _, s := range turn.texts {
			parts = append(parts, `{`+maybe(`"cache_control":{"type":"ephemeral"},`)+`"type":"text","text":`+text(s)+`}`)
		}
		if turn.tool != "" && turn.role == "assistant" {
			args := []string{`{"a":1,"b":"x"}`, `{ "b":"x", "a":1 }`}[rng.IntN(2)]
			parts = append(parts, fmt.Sprintf(`{"type":"tool_use","id":"t%d","name":%q,"input":%s}`, rng.IntN(9), turn.tool, args))
		}
		content := "[" + strings.Join(parts, ",") + "]"
		if len(parts) == 1 && len(turn.texts) == 1 && rng.IntN(2) == 0 {
			content = text(turn.texts[0])
		}
		members := []string{`"role":"` + turn.role + `"`, `"content":` + content}
		if rng.IntN(2) == 0 {
			slices.Reverse(members)
		}
		messages = append(messages, `{`+maybe(`"id":"msg_1",`)+strings.Join(members, ",")+`}`)
	}
	return []byte(`{"model":"m",` + maybe(`"stream":true,`) + `"messages":[` + strings.Join(messages, ",") + `],"system":"s"}`)
}
