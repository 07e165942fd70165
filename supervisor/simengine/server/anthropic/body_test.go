package anthropic

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lm-warden/warden/supervisor/simengine/prompt"
	"github.com/lm-warden/warden/supervisor/simengine/server/api"
)

func TestConversation(t *testing.T) {
	const raw = `{
		"system":[{"type":"text","text":"x-anthropic-billing-header: cch=1"},{"type":"text","text":"rules"}],
		"tools":[{"name":"Read","cache_control":{"type":"ephemeral"}}],
		"messages":[
			{"role":"user","content":"look"},
			{"role":"assistant","content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"so"},{"type":"tool_use","name":"Read","input":{"a":1}}]},
			{"role":"user","content":[{"type":"tool_result","content":"one"},{"type":"tool_result","content":[{"type":"text","text":"two"}]},{"type":"image"}]},
			{"role":"system","content":[{"type":"text","text":"late"}]},
			{"role":"user","content":[{"type":"tool_result"}]}]}`
	before := []prompt.Message{
		{Role: "user", Text: "look"},
		{Role: "assistant", Text: "so", Calls: []prompt.Call{{Name: "Read", Arguments: `{"a":1}`}}},
		{Role: "tool", Text: "one"}, {Role: "tool", Text: "two"}, {Role: "user", Text: "<image>"},
	}
	tools := []prompt.Tool{{Name: "Read", Definition: json.RawMessage(`{"name":"Read"}`)}}
	last := prompt.Message{Role: "tool"}
	tests := []struct {
		anywhere bool
		want     prompt.Conversation
	}{
		{false, prompt.Conversation{System: "ruleslate", Tools: tools, Messages: append(before[:5:5], last)}},
		{true, prompt.Conversation{System: "rules", Tools: tools, Messages: append(before[:5:5], prompt.Message{Role: "system", Text: "late"}, last)}},
	}
	for _, tt := range tests {
		var q Messages
		if err := json.Unmarshal([]byte(raw), &q); err != nil {
			t.Fatal(err)
		}
		got, err := q.conversation(api.Settings{SystemAnywhere: tt.anywhere})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("system anywhere %v:\n%s", tt.anywhere, diff)
		}
	}
}
