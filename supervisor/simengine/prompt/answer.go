package prompt

import (
	"encoding/binary"
	"math/rand/v2"
	"strings"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"
	"github.com/lm-warden/warden/supervisor/simengine/core"
)

// Label begins every answer, so that no simulated text is ever mistaken for a
// model's.
const Label = "SIMULATED"

// Wish is what the request says about its answer.
type Wish struct {
	Script Script
	Calls  []Call // tool calls to answer with
	// MaxTokens bounds the answer; it is always known, since the context is
	// finite.
	MaxTokens int
	// MinTokens and IgnoreEOS lengthen it.
	MinTokens int
	IgnoreEOS bool
	// Stop ends it before any of these strings.
	Stop []string
	// Allowed, when set, makes the answer a repetition of one of these tokens
	// (allowed_token_ids), so that it can be replayed token by token.
	Allowed []core.Token
	// Choice tells several answers to one prompt apart.
	Choice int
}

// Answer is a decided answer: its tokens and what each of them shows.
type Answer struct {
	Tokens []core.Token
	// Pieces holds, for each token, what becomes visible with it.
	Pieces [][]Piece
	// Text and Calls are all of it.
	Text  string
	Calls []Call
	// Endless says that the answer has no end of its own.
	Endless bool
	// StoppedBy is the stop string that ended it.
	StoppedBy string
}

// Piece is a visible part of an answer.
type Piece struct {
	Kind PieceKind
	Text string
	Call int // index into Calls, for CallStart and CallArguments
}

// PieceKind says what a piece is.
type PieceKind int

// The kinds of pieces.
const (
	Content       PieceKind = iota
	CallStart               // the call's name is known
	CallArguments           // a part of its JSON
)

// Writer decides answers.
type Writer struct {
	Tokenizer Tokenizer
	// Seed makes engines differ.
	Seed uint64
	// Words is the mean length of an answer that no marker or limit decides;
	// 0 means 40.
	Words int
}

const defaultWords = 40

// Write decides the answer to a prompt. Equal prompts, wishes and seeds give
// equal answers.
func (w Writer) Write(prompt []core.Token, wish Wish) Answer {
	rng := rand.New(rand.NewPCG(w.Seed, fingerprint(prompt)+uint64(wish.Choice)))
	if len(wish.Allowed) > 0 {
		return w.repeat(wish.Allowed[rng.IntN(len(wish.Allowed))], wish)
	}
	b := builder{tokenizer: w.Tokenizer}
	if len(wish.Calls) > 0 {
		b.calls(wish.Calls)
	} else {
		b.content(w.text(rng, wish))
	}
	a := b.out
	a.cutAtStop(wish.Stop)
	switch {
	case a.StoppedBy != "":
	case wish.IgnoreEOS:
		a.Endless = true
	default:
		a.push(w.Tokenizer.Special(TurnEnd))
	}
	return a
}

func fingerprint(prompt []core.Token) uint64 {
	buf := make([]byte, 0, 8*len(prompt))
	for _, t := range prompt {
		buf = binary.LittleEndian.AppendUint64(buf, uint64(t))
	}
	return xxhash.Sum64(buf)
}

// text writes the words of an answer.
func (w Writer) text(rng *rand.Rand, wish Wish) string {
	s := wish.Script
	switch {
	case s.Say != "":
		return Label + " " + s.Say
	case s.Tokens > 0:
		return exactly(w.Tokenizer, rng, min(s.Tokens, wish.MaxTokens+1)-1) // the end is a token too
	case wish.IgnoreEOS:
		return exactly(w.Tokenizer, rng, wish.MaxTokens)
	case wish.MinTokens > 0:
		return exactly(w.Tokenizer, rng, min(wish.MinTokens, wish.MaxTokens))
	}
	words := s.Words
	if words == 0 {
		mean := w.Words
		if mean == 0 {
			mean = defaultWords
		}
		words = mean/2 + rng.IntN(mean+1)
	}
	return sentence(rng, min(words, wish.MaxTokens+1)) // a word is at least one token: more would never show
}

// exactly returns a text of n tokens.
func exactly(t Tokenizer, rng *rand.Rand, n int) string {
	text := sentence(rng, n+1) // a word is at least one token
	if t == Bytes {
		return text[:n]
	}
	size := 0
	for range n {
		size += pieceLen(text[size:])
	}
	return text[:size]
}

func (w Writer) repeat(id core.Token, wish Wish) Answer {
	n := wish.MaxTokens
	if wish.Script.Tokens > 0 {
		n = min(n, wish.Script.Tokens)
	}
	b := builder{tokenizer: w.Tokenizer}
	for range n {
		b.token(id)
	}
	a := b.out
	a.cutAtStop(wish.Stop)
	a.Endless = a.StoppedBy == ""
	return a
}

// sentence returns the label and n-1 words.
func sentence(rng *rand.Rand, n int) string {
	var b strings.Builder
	b.WriteString(Label)
	for i := 1; i < n; i++ {
		word := vocabulary[rng.IntN(len(vocabulary))]
		switch {
		case i == 1:
			b.WriteString(": ")
		case i%12 == 0:
			b.WriteString(".\n")
			word = strings.ToUpper(word[:1]) + word[1:]
		default:
			b.WriteByte(' ')
		}
		b.WriteString(word)
	}
	return b.String()
}

var vocabulary = strings.Fields(`the a one each replica block token prefix cache turn answer prompt step queue
	reads writes keeps finds moves holds waits runs ends starts first last next early late same other small large
	quick steady warm cold full free near far again never often now then here there because while before after with`)

// builder collects tokens together with what they show.
type builder struct {
	tokenizer Tokenizer
	out       Answer
	partial   []byte // a character whose last byte has not come yet
}

// content adds visible text.
func (b *builder) content(text string) {
	for _, id := range b.tokenizer.Append(nil, text) {
		b.token(id)
	}
}

// token adds one token of visible text.
func (b *builder) token(id core.Token) {
	text, err := b.tokenizer.Text(id)
	if err != nil {
		text = string(utf8.RuneError)
	}
	b.out.push(id)
	if visible := b.complete(text); visible != "" {
		b.show(Piece{Kind: Content, Text: visible})
		b.out.Text += visible
	}
}

// complete holds a character back until its last byte has come, as vLLM's
// detokenizer does.
func (b *builder) complete(text string) string {
	b.partial = append(b.partial, text...)
	if !utf8.FullRune(b.partial) {
		return ""
	}
	visible := strings.ToValidUTF8(string(b.partial), string(utf8.RuneError))
	b.partial = b.partial[:0]
	return visible
}

func (b *builder) show(p Piece) {
	last := len(b.out.Pieces) - 1
	b.out.Pieces[last] = append(b.out.Pieces[last], p)
}

// region is where a call's arguments stand in the generated text.
type region struct{ from, to int }

// calls adds tool calls in the form in which the template will show them
// later. A call's name shows when its head is complete, then its arguments.
func (b *builder) calls(calls []Call) {
	b.out.Calls = calls
	text := AssistantText("", calls)
	regions := make([]region, len(calls))
	at := 0
	for i, c := range calls {
		from := at + len(callHead(c))
		regions[i] = region{from: from, to: from + len(Canonical([]byte(c.Arguments)))}
		at = regions[i].to + len(callTail) + len("\n")
	}
	at = 0
	for _, id := range b.tokenizer.Append(nil, text) {
		piece, _ := b.tokenizer.Text(id) // it came out of this tokenizer
		b.out.push(id)
		end := at + len(piece)
		for i, r := range regions {
			if at < r.from && end >= r.from {
				b.show(Piece{Kind: CallStart, Text: calls[i].Name, Call: i})
			}
			if from, to := max(at, r.from), min(end, r.to); from < to {
				if visible := b.complete(text[from:to]); visible != "" {
					b.show(Piece{Kind: CallArguments, Text: visible, Call: i})
				}
			}
		}
		at = end
	}
}

func (a *Answer) push(id core.Token) {
	a.Tokens = append(a.Tokens, id)
	a.Pieces = append(a.Pieces, nil)
}

// cutAtStop ends the text before the first stop string, at the token that
// completes it.
func (a *Answer) cutAtStop(stops []string) {
	at := -1
	for _, stop := range stops {
		if i := strings.Index(a.Text, stop); stop != "" && i >= 0 && (at < 0 || i < at) {
			at, a.StoppedBy = i, stop
		}
	}
	if at < 0 {
		return
	}
	shown := 0
	for i, pieces := range a.Pieces {
		for j, p := range pieces {
			visible := max(min(len(p.Text), at-shown), 0)
			shown += len(p.Text)
			a.Pieces[i][j].Text = p.Text[:visible]
		}
		if shown >= at+len(a.StoppedBy) {
			a.Tokens, a.Pieces = a.Tokens[:i+1], a.Pieces[:i+1]
			break
		}
	}
	a.Text = a.Text[:at]
}
