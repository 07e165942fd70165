package load

import (
	"math/rand/v2"
	"strings"
)

// vocabulary is plain text of an agent's trade; its words are mostly one token
// each in the tokenizers of current models.
var vocabulary = strings.Fields(`the file test error line function return value change read write build run check
	module package type list call server request answer stream token cache model prompt tool result update remove add
	branch commit review patch open close find replace error trace stack frame loop index array string number check name
	path user data field table query order limit count start stop wait retry state event queue lock thread process memory`)

// words returns about n characters of text.
func words(rng *rand.Rand, n int) string {
	var b strings.Builder
	b.Grow(n + 12)
	for b.Len() < n {
		b.WriteString(vocabulary[rng.IntN(len(vocabulary))])
		b.WriteByte(' ')
	}
	return b.String()
}
