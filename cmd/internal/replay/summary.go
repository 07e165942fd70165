package replay

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lm-warden/warden/cmd/internal/load"
	"github.com/lm-warden/warden/cmd/internal/words"
)

// Log is what there was to replay, and what is not.
type Log struct {
	// Files are the logs, as they were named.
	Files []string `json:"files"`
	// Began is the arrival of the first request that is played.
	Began time.Time `json:"began"`
	// Seconds lie between the first arrival and the last.
	Seconds float64 `json:"seconds"`
	// Requests are played.
	Requests int `json:"requests"`
	// ByAPI is how many of them each API has: chat, completions, messages, responses.
	ByAPI map[string]int `json:"requests_by_api"`
	// Sessions are conversations; requests that belong to none are not counted.
	Sessions int `json:"sessions"`
	// Refused requests are not played.
	Refused int `json:"refused_not_played"`
	// Silent requests ask for no text, and are not played.
	Silent int `json:"without_answer_text_not_played"`
	// Unknown requests have no length in the log, and are not played.
	Unknown int `json:"of_unknown_length_not_played"`
	// Twice lines stood in the logs before, as those of a copy: they are not played again.
	Twice int `json:"lines_twice"`
	// Warm sessions began before the log: their first turn is colder than it was.
	Warm int `json:"sessions_begun_before"`
}

// Log says what the plan was made of.
func (p Plan) Log(files []string) Log {
	return Log{
		Files: files, Began: p.Began.UTC(), Seconds: p.Length.Seconds(), Requests: p.Requests, ByAPI: p.ByAPI, Sessions: p.Sessions,
		Refused: p.Refused, Silent: p.Silent, Unknown: p.Unknown, Twice: p.Twice, Warm: p.Warm,
	}
}

// Write tells a person.
func (l Log) Write(w io.Writer, speed float64) error {
	var b strings.Builder
	var apis []string
	for _, api := range slices.Sorted(maps.Keys(l.ByAPI)) {
		apis = append(apis, fmt.Sprintf("%d %s", l.ByAPI[api], api))
	}
	fmt.Fprintf(&b, "%s: %s (%s) of %s in %s, sent %gx as fast\n", strings.Join(l.Files, ", "), words.Count(l.Requests, "request", "requests"),
		strings.Join(apis, ", "), words.Count(l.Sessions, "session", "sessions"),
		time.Duration(l.Seconds*float64(time.Second)).Round(time.Second), speed)
	if l.Refused+l.Silent+l.Unknown > 0 {
		fmt.Fprintf(&b, "not played: %d refused, %d that generate nothing, %d of unknown length\n", l.Refused, l.Silent, l.Unknown)
	}
	if l.Twice > 0 {
		fmt.Fprintf(&b, "in the logs twice and played once: %s\n", words.Count(l.Twice, "request", "requests"))
	}
	if l.Warm > 0 {
		fmt.Fprintf(&b, "%s began before the log or forked from another: the first turn is colder than it was\n", words.Count(l.Warm, "session", "sessions"))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteDrift tells a person how far a replay was from its recording.
func WriteDrift(w io.Writer, d load.Drift) error {
	var b strings.Builder
	fmt.Fprintf(&b, "prompt tokens: recorded %d, replayed %d (%s); 95%% of the prompts are within %.1f%%\n",
		d.PromptRecorded, d.PromptReplayed, change(d.PromptRecorded, d.PromptReplayed), 100*d.PromptOffP95())
	fmt.Fprintf(&b, "output tokens: recorded %d, replayed %d (%s)\n",
		d.OutputRecorded, d.OutputReplayed, change(d.OutputRecorded, d.OutputReplayed))
	if d.Late > 0 {
		fmt.Fprintf(&b, "%d of %d requests were sent late, at most %.1fs: the turn before them had not ended\n", d.Late, d.Sent, d.LatestBy)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func change(from, to int) string {
	if from == 0 {
		return "-"
	}
	return fmt.Sprintf("%+.1f%%", 100*(float64(to)/float64(from)-1))
}
