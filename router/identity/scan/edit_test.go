package scan

import (
	"bytes"
	"encoding/json"
	"testing"
)

func TestEdit(t *testing.T) {
	tests := []struct {
		name, body string
		edit       Edit
		want       string
	}{
		{"nothing", `{ "model" : "a" }`, Edit{}, `{ "model" : "a" }`},
		{"not valid", `{"model"`, Edit{Model: "b", IncludeUsage: true}, `{"model"`},
		{"model", `{ "x":1.0, "model" : "a" ,"y":"é"}`, Edit{Model: "b\"<"}, `{ "x":1.0, "model" : "b\"<" ,"y":"é"}`},
		{"same model", `{"model":"a"}`, Edit{Model: "a"}, `{"model":"a"}`},
		{"the model that counts", `{"model":"a","model":"b"}`, Edit{Model: "c"}, `{"model":"a","model":"c"}`},
		{"model of another type", `{"model":null}`, Edit{Model: "c"}, `{"model":"c"}`},
		{"no model", ` { "x":1}`, Edit{Model: "c"}, ` {"model":"c", "x":1}`},
		{"empty object", ` { } `, Edit{Model: "c", IncludeUsage: true}, ` {"model":"c","stream_options":{"include_usage":true} } `},
		{"no options", `{"stream":true}`, Edit{IncludeUsage: true}, `{"stream_options":{"include_usage":true},"stream":true}`},
		{"null options", `{"stream_options": null,"a":1}`, Edit{IncludeUsage: true}, `{"stream_options": {"include_usage":true},"a":1}`},
		{"empty options", `{"stream_options": { }}`, Edit{IncludeUsage: true}, `{"stream_options": {"include_usage":true }}`},
		{"other options", `{"stream_options":{"z":1}}`, Edit{IncludeUsage: true}, `{"stream_options":{"include_usage":true,"z":1}}`},
		{"usage off", `{"stream_options":{"include_usage": false}}`, Edit{IncludeUsage: true}, `{"stream_options":{"include_usage": true}}`},
		{"usage on", `{"stream_options":{"include_usage":true}}`, Edit{IncludeUsage: true}, `{"stream_options":{"include_usage":true}}`},
		{"options twice", `{"stream_options":{"include_usage":true},"stream_options":{}}`, Edit{IncludeUsage: true},
			`{"stream_options":{"include_usage":true},"stream_options":{"include_usage":true}}`},
		{"fold", `{"messages":[{"role":"user","content":"a"},{"role":"system","content":"b"}]}`, Edit{FoldSystemTurns: true},
			`{"messages":[{"role":"user","content":"a"},{"role":"user","content":"<system-reminder>\nb\n</system-reminder>"}]}`},
		{"fold parts", `{"messages":[{"role":"user","content":"a"},{"content":[{"type":"text","text":"b"},{"text":"c","type":"text"}],"role":"developer"}]}`, Edit{FoldSystemTurns: true},
			`{"messages":[{"role":"user","content":"a"},{"content":[{"type":"text","text":"<system-reminder>\nb"},{"text":"c\n</system-reminder>","type":"text"}],"role":"user"}]}`},
		{"leading system text stays", `{"messages":[{"role":"system","content":"b"},{"role":"user","content":"a"}]}`, Edit{FoldSystemTurns: true},
			`{"messages":[{"role":"system","content":"b"},{"role":"user","content":"a"}]}`},
		{"empty system turn stays", `{"messages":[{"role":"user","content":"a"},{"role":"system","content":[]}]}`, Edit{FoldSystemTurns: true},
			`{"messages":[{"role":"user","content":"a"},{"role":"system","content":[]}]}`},
		{"all", `{"messages":[{"role":"user","content":"a"},{"role":"system","content":"b"}],"stream_options":{},"model":"a"}`,
			Edit{Model: "m", IncludeUsage: true, FoldSystemTurns: true},
			`{"messages":[{"role":"user","content":"a"},{"role":"user","content":"<system-reminder>\nb\n</system-reminder>"}],"stream_options":{"include_usage":true},"model":"m"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := Scan("/v1/chat/completions", []byte(tt.body))
			out := bytes.Join(b.Edited([]byte(tt.body), tt.edit), nil)
			if string(out) != tt.want {
				t.Errorf("got  %s\nwant %s", out, tt.want)
			}
			if b.Valid && !json.Valid(out) {
				t.Errorf("not JSON: %s", out)
			}
		})
	}
}
