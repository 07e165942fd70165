package dialect

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var hiding, mending = Edits{HideUsage: true}, Edits{MendUsage: true}

// Streams in the form that vLLM 0.32 writes them.
const (
	chatUsageChunk = `data: {"id":"c1","object":"chat.completion.chunk","created":1,"choices":[],"model":"m","system_fingerprint":"fp_1","usage":{"prompt_tokens":2729,"total_tokens":2732,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":2720}}}` + "\n\n"
	chatHead       = `data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}` + "\n\n" +
		": keep-alive\n\n" +
		`data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"say \"usage\""},"finish_reason":null}]}` + "\n\n"
	chatFinish = `data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}` + "\n\n"
	chatDone   = "data: [DONE]\n\n"

	messagesStream = "event: message_start\n" +
		`data: {"type":"message_start","message":{"id":"msg_1","content":[],"model":"m","usage":{"input_tokens":2729,"output_tokens":0}}}` + "\n\n" +
		"event: content_block_start\n" +
		`data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}` + "\n\n" +
		"event: content_block_delta\n" +
		`data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hi"}}` + "\n\n" +
		"event: content_block_stop\n" + `data: {"type":"content_block_stop","index":0}` + "\n\n" +
		"event: message_delta\n" +
		`data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":9,"output_tokens":3,"cache_read_input_tokens":2720,"cache_creation_input_tokens":0}}` + "\n\n" +
		"event: message_stop\n" + `data: {"type":"message_stop"}` + "\n\n"

	responsesStream = "event: response.created\n" +
		`data: {"response":{"id":"resp_9","status":"in_progress"},"sequence_number":0,"type":"response.created"}` + "\n\n" +
		"event: response.output_text.delta\n" +
		`data: {"delta":"hi","type":"response.output_text.delta","sequence_number":1}` + "\n\n" +
		"event: response.completed\n" +
		`data: {"response":{"id":"resp_9","status":"completed","output":[{"type":"function_call","name":"x"}],"usage":{"input_tokens":40,"input_tokens_details":{"cached_tokens":32},"output_tokens":7}},"sequence_number":2,"type":"response.completed"}` + "\n\n"
)

func feed(api API, edits Edits, text string, size int) (string, *Stream) {
	s := NewStream(api, edits)
	var out bytes.Buffer
	for b := []byte(text); len(b) > 0; {
		n := min(size, len(b))
		o, _ := s.Feed(b[:n])
		out.Write(o)
		b = b[n:]
	}
	out.Write(s.Close())
	return out.String(), s
}

func TestStreamSummaries(t *testing.T) {
	for _, c := range []struct {
		name string
		api  API
		text string
		want Summary
	}{
		{"chat with usage", Chat, chatHead + chatFinish + chatUsageChunk + chatDone,
			Summary{Usage: Usage{2729, 2720, 3}, Finish: FinishToolCalls, Content: true, Ended: true}},
		{"chat without usage", Chat, chatHead + chatFinish + chatDone,
			Summary{Usage: unmeasured, Finish: FinishToolCalls, Content: true, Ended: true}},
		{"chat, details off", Chat, strings.Replace(chatUsageChunk, `{"cached_tokens":2720}`, "null", 1),
			Summary{Usage: Usage{2729, -1, 3}}},
		{"cut chat", Chat, chatHead, Summary{Usage: unmeasured, Content: true}},
		{"only the role", Chat, chatHead[:strings.Index(chatHead, ":")] + chatHead[len("data"):strings.Index(chatHead, "\n\n")+2],
			Summary{Usage: unmeasured}},
		{"continuous usage keeps the details", Chat,
			chatUsageChunk + `data: {"choices":[{"index":0,"delta":{"reasoning":"x"}}],"usage":{"prompt_tokens":2729,"completion_tokens":4}}` + "\n\n",
			Summary{Usage: Usage{2729, 2720, 4}, Content: true}},
		{"completions", Completions, `data: {"choices":[{"index":0,"text":"y","finish_reason":"length"}]}` + "\r\n\r\n" + chatDone,
			Summary{Usage: unmeasured, Finish: FinishLength, Content: true, Ended: true}},
		{"messages", Messages, messagesStream,
			Summary{Usage: Usage{2729, 2720, 3}, Finish: FinishStop, Content: true, Ended: true}},
		{"messages without cache fields", Messages, strings.Replace(strings.Replace(messagesStream,
			`,"cache_read_input_tokens":2720,"cache_creation_input_tokens":0`, "", 1), `"input_tokens":9`, `"input_tokens":2729`, 1),
			Summary{Usage: Usage{2729, -1, 3}, Finish: FinishStop, Content: true, Ended: true}},
		{"cut messages", Messages, messagesStream[:strings.Index(messagesStream, "event: message_delta")],
			Summary{Usage: Usage{2729, -1, 0}, Content: true}},
		{"responses", Responses, responsesStream,
			Summary{Usage: Usage{40, 32, 7}, Finish: FinishToolCalls, ResponseID: "resp_9", Content: true, Ended: true}},
		{"dead engine, chat", Chat,
			`data: {"error": {"message": "EngineCore encountered an issue. See stack trace (above) for the root cause.", "type": "InternalServerError", "param": null, "code": 500}}` + "\n\n" + chatDone,
			Summary{Usage: unmeasured, Ended: true, Failed: true, EngineDead: true}},
		{"error, messages", Messages, "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"internal_error\",\"message\":\"boom\"}}\n\n",
			Summary{Usage: unmeasured, Ended: true, Failed: true}},
		{"error without a type, responses", Responses, "event: unknown\ndata: {\"error\":{\"message\":\"boom\"}}\n\n",
			Summary{Usage: unmeasured, Ended: true, Failed: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, size := range []int{1, 3, 7, 64, 1 << 20} {
				out, s := feed(c.api, Edits{}, c.text, size)
				if diff := cmp.Diff(c.want, s.Summary); diff != "" {
					t.Fatalf("pieces of %d bytes (-want +got):\n%s", size, diff)
				}
				if out != c.text {
					t.Fatalf("pieces of %d bytes: the stream was changed", size)
				}
			}
		})
	}
}

// What the client sees when warden asked for usage is, byte for byte, what the
// engine writes without being asked (vLLM 0.32 with --fingerprint-mode none).
func TestHiddenUsageLeavesNoTrace(t *testing.T) {
	plain := chatHead + chatFinish + chatDone
	usage := strings.Replace(chatUsageChunk, `"system_fingerprint":"fp_1",`, "", 1)
	for size := 1; size < 700; size += 13 {
		out, s := feed(Chat, hiding, chatHead+chatFinish+usage+chatDone, size)
		if out != plain {
			t.Fatalf("pieces of %d bytes:\n%s\nwant\n%s", size, out, plain)
		}
		if s.CachedTokens != 2720 || !s.Ended {
			t.Fatalf("pieces of %d bytes: usage not read: %+v", size, s.Summary)
		}
	}
}

func TestFingerprintReturnsToTheFinishingChunk(t *testing.T) {
	out, _ := feed(Chat, hiding, chatHead+chatFinish+chatUsageChunk+chatDone, 1<<20)
	finish := strings.Replace(chatFinish, `"finish_reason":"tool_calls"}]}`, `"finish_reason":"tool_calls"}],"system_fingerprint":"fp_1"}`, 1)
	if want := chatHead + finish + chatDone; out != want {
		t.Fatalf("got\n%s\nwant\n%s", out, want)
	}
}

func TestHidingDelaysNothingButTheFinishingChunk(t *testing.T) {
	s := NewStream(Chat, hiding)
	for _, event := range strings.SplitAfter(chatHead, "\n\n") {
		if out, _ := s.Feed([]byte(event)); string(out) != event {
			t.Fatalf("%q was passed on as %q", event, out)
		}
	}
	if out, _ := s.Feed([]byte(chatFinish)); len(out) != 0 {
		t.Fatalf("the finishing chunk was passed on before its successor: %q", out)
	}
	if out, _ := s.Feed([]byte(chatDone)); string(out) != chatFinish+chatDone {
		t.Fatalf("without a usage chunk: %q", out)
	}
}

func TestProgressIsDataNotComments(t *testing.T) {
	s := NewStream(Chat, Edits{})
	for _, c := range []struct {
		piece string
		want  bool
	}{
		{": ping\n\n", false}, {": pi", false}, {"ng\n\n", false}, {"event: x\n\n", false},
		{"data: {}\n", false}, {"\n", true}, {"data\n\n", true}, {"database: x\n\n", false},
	} {
		if _, got := s.Feed([]byte(c.piece)); got != c.want {
			t.Errorf("Feed(%q): progress %v, want %v", c.piece, got, c.want)
		}
	}
}

func TestMidEvent(t *testing.T) {
	s := NewStream(Chat, Edits{})
	for _, c := range []struct {
		piece string
		want  bool
	}{{"data: {}\n\n", false}, {"data: {", true}, {"}", true}, {"\n\n", false}, {"data: 1\n", true}, {"\n", false}} {
		s.Feed([]byte(c.piece))
		if s.MidEvent() != c.want {
			t.Errorf("after %q: mid event %v, want %v", c.piece, s.MidEvent(), c.want)
		}
	}
	hidden := NewStream(Chat, hiding)
	if out, _ := hidden.Feed([]byte("data: {")); len(out) != 0 || hidden.MidEvent() {
		t.Errorf("half an event was passed on while usage is hidden: %q", out)
	}
}

func TestOversizedEventsPassUnread(t *testing.T) {
	big := `data: {"choices":[],"usage":{"prompt_tokens":1},"pad":"` + strings.Repeat("x", maxHeldEvent) + "\"}\n\n"
	for _, size := range []int{1000, len(big) - 1, len(big)} {
		out, s := feed(Chat, hiding, big+chatUsageChunk, size)
		if out != big {
			t.Errorf("pieces of %d: the large event was not passed on as it is (%d of %d bytes)", size, len(out), len(big))
		}
		if s.PromptTokens != 2729 {
			t.Errorf("pieces of %d: the event after a large one was not read", size)
		}
		if cap(s.partial) > 2*maxHeldEvent {
			t.Errorf("pieces of %d: %d bytes held", size, cap(s.partial))
		}
	}
}

func FuzzStream(f *testing.F) {
	f.Add([]byte(chatHead+chatFinish+chatUsageChunk+chatDone), uint8(Chat), uint8(1), uint16(7))
	f.Add([]byte(messagesStream), uint8(Messages), uint8(0), uint16(11))
	f.Add([]byte(responsesStream), uint8(Responses), uint8(0), uint16(64))
	f.Add([]byte(strings.Replace(messagesStream, `"input_tokens":9`, `"input_tokens":0`, 1)), uint8(Messages), uint8(2), uint16(11))
	f.Add([]byte("data:\r\n\r\n\r\r\n\n\ndata"), uint8(Completions), uint8(1), uint16(1))
	f.Fuzz(func(t *testing.T, text []byte, api uint8, edit uint8, size uint16) {
		a := API(api % 7)
		edits := []Edits{{}, hiding, mending}[edit%3]
		whole, w := feed(a, edits, string(text), len(text)+1)
		cut, c := feed(a, edits, string(text), int(size)+1)
		if whole != cut {
			t.Fatalf("cut into %d: %q, whole: %q", size+1, cut, whole)
		}
		if w.Summary != c.Summary {
			t.Fatalf("cut into %d: %+v, whole: %+v", size+1, c.Summary, w.Summary)
		}
		if !edits.any() && whole != string(text) {
			t.Fatal("an untouched stream was changed")
		}
		if !bytes.Contains(text, []byte(`"usage"`)) && whole != string(text) {
			t.Fatalf("nothing to edit, yet %q became %q", text, whole)
		}
	})
}

func BenchmarkChatChunk(b *testing.B) {
	chunk := []byte(chatHead[strings.LastIndex(chatHead, "data: "):])
	for _, hide := range []bool{false, true} {
		b.Run(map[bool]string{false: "pass", true: "hide"}[hide], func(b *testing.B) {
			s := NewStream(Chat, Edits{HideUsage: hide})
			b.ReportAllocs()
			for range b.N {
				s.Feed(chunk)
			}
		})
	}
}
