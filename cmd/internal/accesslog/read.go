package accesslog

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/lm-warden/warden/router/record"
)

// maxLine bounds one line in bytes: ours stay under 2 kB, and a foreign file
// may be one line.
const maxLine = 64 << 10

// Read reads a whole log; name stands in errors. cut says that its last line
// has no end: the log is still being written, or its writer was killed.
func Read(r io.Reader, name string) (lines []Line, cut bool, err error) {
	in := bufio.NewReaderSize(r, maxLine)
	for n := 1; ; n++ {
		text, err := in.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return nil, false, fmt.Errorf("%s:%d: longer than %d bytes, so no line of warden's access log", name, n, maxLine)
		case errors.Is(err, io.EOF):
			return lines, len(text) > 0, nil
		case err != nil:
			return nil, false, fmt.Errorf("%s:%d: %w", name, n, err)
		}
		line, err := Parse(text)
		if err != nil {
			return nil, false, fmt.Errorf("%s:%d: %w", name, n, err)
		}
		lines = append(lines, line)
	}
}

// Parse reads one line. Fields that it does not know are those of a later
// warden and are passed over.
func Parse(text []byte) (Line, error) {
	var l Line
	if err := json.Unmarshal(text, &l); err != nil {
		return Line{}, fmt.Errorf("not a line of warden's access log: %w", err)
	}
	return l, l.check()
}

func (l Line) check() error {
	bad := func(what string) error { return errors.New("not a line of warden's access log: " + what) }
	if l.Time.IsZero() {
		return bad("time is missing")
	}
	if l.Path == "" {
		return bad("path is missing")
	}
	if !slices.Contains([]record.Result{record.Complete, record.Cut, record.Cancelled, record.Refused}, l.Outcome) {
		return bad(fmt.Sprintf("outcome %q is none of complete, cut, cancelled, refused", l.Outcome))
	}
	for name, n := range map[string]*int{
		"prompt_tokens": l.PromptTokens, "cached_tokens": l.CachedTokens, "output_tokens": l.OutputTokens,
		"prompt_tokens_estimated": l.PromptTokensEstimated,
	} {
		if n != nil && (*n < 0 || *n > maxTokens) {
			return bad(fmt.Sprintf("%s %d is no number of tokens", name, *n))
		}
	}
	if l.DurationSeconds < 0 || l.WaitSeconds < 0 {
		return bad("a time is negative")
	}
	return nil
}

// maxTokens is far beyond any context.
const maxTokens = 1 << 30
