package openai

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lm-warden/warden/supervisor/simengine/prompt"
	"github.com/lm-warden/warden/supervisor/simengine/server/wire"
)

// A chat and a list of items that say the same must come down to one
// conversation: clients of both APIs share prefixes.
func TestConversations(t *testing.T) {
	want := prompt.Conversation{
		System: "rules",
		Messages: []prompt.Message{
			{Role: "user", Text: "look <input_image>"},
			{Role: "assistant", Calls: []prompt.Call{{Name: "Read", Arguments: "{}"}, {Name: "List", Arguments: "[]"}}},
			{Role: "tool", Text: "found"},
			{Role: "system", Text: "late"},
			{Role: "user", Text: "go on"},
		},
	}
	tests := []struct {
		name, body string
		of         interface {
			conversation() (prompt.Conversation, *wire.Error)
		}
	}{
		{"chat", `{"messages":[{"role":"developer","content":"rules"},
			{"role":"user","content":[{"type":"text","text":"look "},{"type":"input_image"}]},
			{"role":"assistant","content":null,"tool_calls":[{"function":{"name":"Read","arguments":"{}"}},{"function":{"name":"List","arguments":"[]"}}]},
			{"role":"tool","content":"found"},{"role":"system","content":"late"},{"role":"user","content":"go on"}]}`, new(Chat)},
		{"items", `{"input":[{"role":"system","content":"rules"},
			{"role":"user","content":[{"type":"input_text","text":"look "},{"type":"input_image"}]},
			{"type":"reasoning","content":[]},
			{"type":"function_call","name":"Read","arguments":"{}"},{"type":"function_call","name":"List","arguments":"[]"},
			{"type":"function_call_output","output":"found"},
			{"type":"message","role":"developer","content":"late"},{"role":"user","content":"go on"}]}`, new(Responses)},
		{"instructions", `{"instructions":"rules","input":[
			{"role":"user","content":[{"type":"input_text","text":"look "},{"type":"input_image"}]},
			{"type":"function_call","name":"Read","arguments":"{}"},{"type":"function_call","name":"List","arguments":"[]"},
			{"type":"function_call_output","output":[{"type":"output_text","text":"found"}]},
			{"role":"system","content":"late"},{"role":"user","content":"go on"}]}`, new(Responses)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := json.Unmarshal([]byte(tt.body), tt.of); err != nil {
				t.Fatal(err)
			}
			got, err := tt.of.conversation()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
