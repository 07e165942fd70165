package api

import (
	"strings"

	"github.com/lm-warden/warden/supervisor/simengine/core"
	"github.com/lm-warden/warden/supervisor/simengine/prompt"
)

// Answer is the answer to one task as far as it has come.
type Answer struct {
	Prompt  int // tokens in the prompt
	Limit   int // tokens that a choice may have
	Choices []Choice
}

// Choice is one of the texts that answer a prompt.
type Choice struct {
	Tokens  int
	Prefill core.Prefill // set with the first token
	// Arguments are those of each tool call that has begun.
	Arguments []string
	Reason    string  // the finish reason, once it has one
	Stop      *string // the stop string that ended it

	decided prompt.Answer
	text    strings.Builder
}

// NewAnswer is an answer of which nothing has come yet; decided are its choices
// as they will be.
func NewAnswer(promptTokens, limit int, decided []prompt.Answer) *Answer {
	a := &Answer{Prompt: promptTokens, Limit: limit, Choices: make([]Choice, len(decided))}
	for i := range decided {
		a.Choices[i].decided = decided[i]
	}
	return a
}

// Tokens is the number of tokens over all choices.
func (a *Answer) Tokens() int {
	n := 0
	for i := range a.Choices {
		n += a.Choices[i].Tokens
	}
	return n
}

// Prefill is the first choice's: vLLM reports one per request.
func (a *Answer) Prefill() core.Prefill { return a.Choices[0].Prefill }

// Take adds one token to a choice and returns what becomes visible with it.
func (c *Choice) Take(ev core.TokenEvent) []prompt.Piece {
	if ev.Prefill != nil {
		c.Prefill = *ev.Prefill
	}
	c.Tokens++
	pieces := c.decided.Pieces[ev.Index]
	for _, piece := range pieces {
		switch piece.Kind {
		case prompt.Content:
			c.text.WriteString(piece.Text)
		case prompt.CallStart:
			c.Arguments = append(c.Arguments, "")
		case prompt.CallArguments:
			c.Arguments[piece.Call] += piece.Text
		}
	}
	if ev.Reason != core.Unfinished {
		c.Reason = string(ev.Reason)
		if ev.Reason == core.Stop && c.decided.StoppedBy != "" {
			c.Stop = &c.decided.StoppedBy
		}
	}
	return pieces
}

// Text is the visible text, and whether it is a part of the answer: it is not
// where tool calls are all there is.
func (c *Choice) Text() (text string, shown bool) {
	text = c.text.String()
	return text, text != "" || len(c.Arguments) == 0
}

// CallName is the name of a tool call.
func (c *Choice) CallName(call int) string { return c.decided.Calls[call].Name }
