package replay

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/lm-warden/warden/cmd/internal/load"
	"github.com/lm-warden/warden/cmd/internal/words"
)

// Figures are what is written of a replay beside the reports of the two runs.
type Figures struct {
	File     string  `json:"file"`
	Speed    float64 `json:"speed"`
	Seconds  float64 `json:"recorded_seconds"`
	Requests int     `json:"requests"`
	Sessions int     `json:"sessions"`
	Refused  int     `json:"refused_not_played"`
	Silent   int     `json:"without_answer_text_not_played"`
	Unknown  int     `json:"of_unknown_length_not_played"`
	Warm     int     `json:"sessions_begun_before"`
	load.Drift
	PromptOff float64 `json:"prompt_tokens_off_p95"`
}

// Figures puts together what was planned and how it was played.
func (p Plan) Figures(file string, speed float64, d load.Drift) Figures {
	return Figures{
		File: file, Speed: speed, Seconds: p.Length.Seconds(), Requests: p.Requests, Sessions: p.Sessions,
		Refused: p.Refused, Silent: p.Silent, Unknown: p.Unknown, Warm: p.Warm, Drift: d, PromptOff: d.PromptOffP95(),
	}
}

// Write tells a person.
func (f Figures) Write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s of %s in %s, sent %gx as fast\n", f.File, words.Count(f.Requests, "request", "requests"),
		words.Count(f.Sessions, "session", "sessions"), time.Duration(f.Seconds*float64(time.Second)).Round(time.Second), f.Speed)
	if f.Refused+f.Silent+f.Unknown > 0 {
		fmt.Fprintf(&b, "not played: %d refused, %d that generate nothing, %d of unknown length\n", f.Refused, f.Silent, f.Unknown)
	}
	if f.Warm > 0 {
		fmt.Fprintf(&b, "%s began before the log or forked from another: the first turn is colder than it was\n", words.Count(f.Warm, "session", "sessions"))
	}
	fmt.Fprintf(&b, "prompt tokens: recorded %d, replayed %d (%s); 95%% of the prompts are within %.1f%%\n",
		f.PromptRecorded, f.PromptReplayed, change(f.PromptRecorded, f.PromptReplayed), 100*f.PromptOff)
	fmt.Fprintf(&b, "output tokens: recorded %d, replayed %d (%s)\n",
		f.OutputRecorded, f.OutputReplayed, change(f.OutputRecorded, f.OutputReplayed))
	if f.Late > 0 {
		fmt.Fprintf(&b, "%d of %d requests were sent late, at most %.1fs: the turn before them had not ended\n", f.Late, f.Sent, f.LatestBy)
	}
	b.WriteString("recorded: as measured in warden then; the other rows: as measured at this client now\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func change(from, to int) string {
	if from == 0 {
		return "-"
	}
	return fmt.Sprintf("%+.1f%%", 100*(float64(to)/float64(from)-1))
}
