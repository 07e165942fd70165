package server

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/lm-warden/warden/supervisor/simengine/prompt"
)

// chatChunk is one event. vLLM leaves out what was never set and writes null
// for what was set to nothing; the raw fields keep the two apart.
type chatChunk struct {
	ID                string            `json:"id"`
	Object            string            `json:"object"`
	Created           int64             `json:"created"`
	Model             string            `json:"model"`
	Choices           []chatChunkChoice `json:"choices"`
	Usage             *streamUsage      `json:"usage,omitempty"`
	SystemFingerprint *string           `json:"system_fingerprint,omitempty"`
	PromptTokenIDs    null              `json:"prompt_token_ids,omitempty"`
	PromptText        null              `json:"prompt_text,omitempty"`
}

type chatChunkChoice struct {
	Index        int       `json:"index"`
	Delta        chatDelta `json:"delta"`
	Logprobs     null      `json:"logprobs"`
	FinishReason *string   `json:"finish_reason"`
	StopReason   any       `json:"stop_reason,omitempty"`
	TokenIDs     null      `json:"token_ids,omitempty"`
}

type chatDelta struct {
	Role      string     `json:"role,omitempty"`
	Content   *string    `json:"content,omitempty"`
	ToolCalls []toolCall `json:"tool_calls,omitempty"`
}

// null is a field that is present with the value null, or absent.
type null string

const isNull null = "null"

// MarshalJSON implements json.Marshaler.
func (null) MarshalJSON() ([]byte, error) { return []byte("null"), nil }

func (c *chatReply) chunk(choices ...chatChunkChoice) chatChunk {
	if choices == nil {
		choices = []chatChunkChoice{}
	}
	return chatChunk{ID: c.id, Object: "chat.completion.chunk", Created: c.created, Model: c.model, Choices: choices}
}

// stream sends the answer token by token, and then what ends a stream.
func (c *chatReply) stream(e *eventStream, g *generation) {
	t := track(g)
	err := t.follow(e.request,
		func() error { return c.sendRoles(e, t) },
		func(u update, pieces []prompt.Piece) error { return c.sendToken(e, t, u, pieces) })
	if err == nil && c.usage {
		err = c.sendUsage(e, t)
	}
	e.finish(err)
}

// sendRoles opens each choice, when the first token is there.
func (c *chatReply) sendRoles(e *eventStream, t *tracker) error {
	for i := range t.choices {
		empty := ""
		chunk := c.chunk(chatChunkChoice{Index: i, Delta: chatDelta{Role: "assistant", Content: &empty}, Logprobs: isNull})
		chunk.PromptTokenIDs, chunk.PromptText = isNull, isNull
		if c.continuous {
			chunk.Usage = c.server.usage(t.generation.prompt, 0, nil).stream()
			chunk.Usage.OutputDetails = isNull
		}
		if err := e.send("", encode(chunk)); err != nil {
			return err
		}
	}
	return nil
}

// sendToken sends what becomes visible with one token. A token that shows
// nothing is not sent, unless it ends the answer.
func (c *chatReply) sendToken(e *eventStream, t *tracker, u update, pieces []prompt.Piece) error {
	p := &t.choices[u.choice]
	if len(pieces) == 0 && p.reason == "" {
		return nil
	}
	choice := chatChunkChoice{Index: u.choice, Delta: c.delta(u.choice, pieces), Logprobs: isNull, TokenIDs: isNull}
	if p.reason != "" {
		reason := p.finish()
		choice.FinishReason = &reason
		choice.StopReason = isNull
		if p.stop != nil {
			choice.StopReason = *p.stop
		}
	}
	chunk := c.chunk(choice)
	if p.reason != "" && !c.usage {
		chunk.SystemFingerprint = c.server.fingerprint()
	}
	if c.continuous {
		chunk.Usage = c.server.usage(t.generation.prompt, p.tokens, nil).stream()
		chunk.Usage.OutputDetails = isNull
	}
	return e.send("", encode(chunk))
}

func (c *chatReply) delta(choice int, pieces []prompt.Piece) chatDelta {
	var d chatDelta
	content := ""
	for _, piece := range pieces {
		index := piece.Call
		switch piece.Kind {
		case prompt.Content:
			content += piece.Text
		case prompt.CallStart:
			d.ToolCalls = append(d.ToolCalls, toolCall{
				Index: &index, ID: c.server.callID(c.id, choice, index), Type: "function",
				Function: toolFunction{Name: piece.Text},
			})
		case prompt.CallArguments:
			if last := len(d.ToolCalls) - 1; last >= 0 && *d.ToolCalls[last].Index == index {
				d.ToolCalls[last].Function.Arguments += piece.Text
				continue
			}
			d.ToolCalls = append(d.ToolCalls, toolCall{Index: &index, Function: toolFunction{Arguments: piece.Text}})
		}
	}
	if len(d.ToolCalls) == 0 {
		d.Content = &content
	}
	return d
}

// sendUsage is the last event before [DONE], for those who asked for it.
func (c *chatReply) sendUsage(e *eventStream, t *tracker) error {
	chunk := c.chunk()
	chunk.Usage = c.server.usage(t.generation.prompt, t.tokens(), c.server.details(t.prefill())).stream()
	chunk.SystemFingerprint = c.server.fingerprint()
	return e.send("", encode(chunk))
}

// shortHash makes an id that does not change while a request lasts.
func shortHash(request string, numbers ...int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%v", request, numbers))
	return hex.EncodeToString(sum[:16])
}
