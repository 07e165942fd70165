package prompt

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/lm-warden/warden/supervisor/simengine/core"
)

// Tokenizer turns text into tokens and back without loss.
type Tokenizer int

const (
	// Words cuts text into pieces of at most six bytes; a space starts a new
	// piece and no character is split. English text comes to about four
	// characters a token, like the tokenizers of real models. A token's id is
	// its text: the length in bits 48 to 50, the bytes below.
	Words Tokenizer = iota
	// Bytes makes every byte a token with the byte's value as its id, like the
	// built-in random model that real engines are tested with.
	Bytes
)

// Special tokens stand for themselves and never come out of text.
type Special int

// The special tokens of the chat template.
const (
	TurnStart Special = iota // <|im_start|>
	TurnEnd                  // <|im_end|>, also the end of an answer
)

var specialText = [...]string{TurnStart: "<|im_start|>", TurnEnd: "<|im_end|>"}

const (
	pieceBytes   = 6
	lengthShift  = 48
	specialMark  = 7                   // a length that no piece has
	bytesSpecial = core.Token(256 + 1) // the byte tokenizer's first special id
)

// Special returns the id of a special token.
func (t Tokenizer) Special(s Special) core.Token {
	if t == Bytes {
		return bytesSpecial + core.Token(s)
	}
	return specialMark<<lengthShift | core.Token(s)
}

// Append adds the tokens of a text to dst. The text is one segment: tokens
// never depend on what stands before or after it.
func (t Tokenizer) Append(dst []core.Token, text string) []core.Token {
	if t == Bytes {
		for i := range len(text) {
			dst = append(dst, core.Token(text[i]))
		}
		return dst
	}
	for len(text) > 0 {
		n := pieceLen(text)
		id := core.Token(n) << lengthShift
		for i := range n {
			id |= core.Token(text[i]) << (8 * i)
		}
		dst = append(dst, id)
		text = text[n:]
	}
	return dst
}

// pieceLen is the length in bytes of the first piece of text.
func pieceLen(text string) int {
	_, n := utf8.DecodeRuneInString(text)
	for n < len(text) && text[n] != ' ' {
		_, size := utf8.DecodeRuneInString(text[n:])
		if n+size > pieceBytes {
			break
		}
		n += size
	}
	return n
}

// Text returns the text of a token. Special tokens read like <|im_end|>. It
// fails for an id that this tokenizer never gives out.
func (t Tokenizer) Text(id core.Token) (string, error) {
	if t == Bytes {
		switch special := id - bytesSpecial; {
		case id < 256:
			return string([]byte{byte(id)}), nil
		case id >= bytesSpecial && special < core.Token(len(specialText)):
			return specialText[special], nil
		}
		return "", fmt.Errorf("token id %d is not in the byte vocabulary", id)
	}
	n := id >> lengthShift
	if n == specialMark && id&^(specialMark<<lengthShift) < core.Token(len(specialText)) {
		return specialText[id&^(specialMark<<lengthShift)], nil
	}
	if n < 1 || n > pieceBytes {
		return "", fmt.Errorf("token id %d is not in the vocabulary", id)
	}
	piece := make([]byte, n)
	for i := range piece {
		piece[i] = byte(id >> (8 * i))
	}
	return string(piece), nil
}

// Decode returns the text of a sequence.
func (t Tokenizer) Decode(ids []core.Token) (string, error) {
	var b strings.Builder
	for _, id := range ids {
		text, err := t.Text(id)
		if err != nil {
			return "", err
		}
		b.WriteString(text)
	}
	return b.String(), nil
}
