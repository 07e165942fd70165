package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/lm-warden/warden/cmd/internal/exit"
	"github.com/lm-warden/warden/cmd/internal/load"
	"github.com/lm-warden/warden/cmd/internal/replay"
	"github.com/lm-warden/warden/cmd/internal/words"
	"github.com/lm-warden/warden/supervisor/control"
)

// plotColumns is the width of a plot: it fits 80 columns with its labels.
const plotColumns = 64

// tolerance is how far prompts may miss the target before the user is warned.
const tolerance = 0.2

// keep keeps what one setting measured; label stands above its plot.
func (b *bench) keep(setting, label string, sum load.Measurement, rounds []load.Report) load.Report {
	report, _ := sum.Report() // every round had turns, or the run ended there
	report.Simulated = b.simulated
	row := load.Named{Name: setting, Report: report}
	if len(rounds) > 1 {
		row.Rounds = rounds
	}
	b.results = append(b.results, result{row, sum.Curve(label, plotColumns)})
	return report
}

// add is keep, and warns when it was another load than meant.
func (b *bench) add(setting string, sum load.Measurement, rounds []load.Report) {
	label := fmt.Sprintf("%s, %s", setting, words.Count(sum.Sessions, "session", "sessions"))
	report := b.keep(setting, label, sum, rounds)
	shape := b.shape()
	want := float64(shape.System + shape.First)
	if p := report.PromptTokensFirst; p != nil && *p > 0 && (*p < (1-tolerance)*want || *p > (1+tolerance)*want) {
		fmt.Fprintf(b.o.Err, "warning: first prompts have %.0f tokens, meant were %.0f: `--chars-per-token %.2f` meets it\n", *p, want, b.o.Chars*want / *p)
	}
	if report.TurnsFailed > 0 {
		fmt.Fprintf(b.o.Err, "warning: %s: %s failed; the first: %s\n", label, words.Count(report.TurnsFailed, "turn", "turns"), report.FirstError)
	}
}

// show prints the tables and writes the file.
func (b *bench) show() error {
	out := b.o.Out
	if b.o.JSONFile == "-" {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(b.figures())
	}
	if b.simulated {
		fmt.Fprintln(out, "SIMULATED engines: these figures say nothing about a GPU")
	}
	if err := b.table(out); err != nil {
		return err
	}
	fmt.Fprintln(out, load.Legend)
	if err := b.tellDrift(out); err != nil {
		return err
	}
	if b.o.Plot {
		curves := make([]load.Curve, 0, len(b.results))
		for _, r := range b.results {
			curves = append(curves, r.curve)
		}
		fmt.Fprintln(out)
		if err := load.WritePlot(out, curves, b.o.ASCII); err != nil {
			return err
		}
	}
	if b.o.JSONFile == "" {
		return nil
	}
	content, err := json.MarshalIndent(b.figures(), "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(b.o.JSONFile, append(content, '\n'), 0o644); err != nil {
		return exit.Fail(exit.Failed, fmt.Errorf("cannot write the figures: %w", err), "")
	}
	fmt.Fprintf(b.o.Err, "figures in %s\n", b.o.JSONFile)
	return nil
}

// tellDrift tells what was replayed, and how far from the recording.
func (b *bench) tellDrift(out io.Writer) error {
	if len(b.played) == 0 {
		return nil
	}
	fmt.Fprintln(out)
	if err := b.plan.Log(b.logs).Write(out, b.o.Speed); err != nil {
		return err
	}
	fmt.Fprintln(out, "recorded: as measured in warden then; the other rows: as measured at this client now")
	for _, p := range b.played {
		fmt.Fprintf(out, "\nreplayed, %s\n", p.Setting)
		if err := replay.WriteDrift(out, p.Drift); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) table(out io.Writer) error {
	if !b.o.Compare || len(b.o.Replay) > 0 {
		rows := make([]load.Named, 0, len(b.results))
		for _, r := range b.results {
			rows = append(rows, r.Named)
		}
		return load.WriteTable(out, rows)
	}
	fmt.Fprintln(out, "affinity off -> on")
	var pairs []load.Pair
	for i := 0; i+1 < len(b.results); i += 2 {
		pairs = append(pairs, load.Pair{Off: b.results[i].Named, On: b.results[i+1].Named})
	}
	if err := load.WriteComparison(out, pairs); err != nil {
		return err
	}
	for _, p := range pairs {
		if text := lossText(p, b.capacity); text != "" {
			fmt.Fprintln(out, text)
		}
	}
	return nil
}

// worthTelling is how much slower the median must be before it is called slower
// rather than noise.
const worthTelling = 1.1

// lossText says where affinity lost, and whether the KV caches are the cause:
// conversations that do not fit evict each other's prefixes wherever they stay.
func lossText(p load.Pair, capacity int) string {
	off, on := p.Off.Report.TTFBp50, p.On.Report.TTFBp50
	if off == nil || on == nil || *on < worthTelling**off {
		return ""
	}
	text := fmt.Sprintf("%s: affinity made the median first byte slower (%.2fs against %.2fs).", words.Count(p.On.Report.Sessions, "session", "sessions"), *on, *off)
	longest := p.On.Report.PromptTokensLongest
	if longest == nil || capacity == 0 {
		return text
	}
	set := float64(p.On.Report.Sessions) * *longest
	text += fmt.Sprintf(" They grow to %.0fk tokens together, the KV caches hold %.0fk:", set/1000, float64(capacity)/1000)
	if set > float64(capacity) {
		return text + " fewer sessions at a time, or affinity off at this load."
	}
	return text + " that is not the cause; repeat with --rounds 3."
}

// file is the JSON form of all figures; base units, names that stay.
type file struct {
	Schema          int          `json:"schema"`
	Kind            string       `json:"kind"` // sessions
	Warden          string       `json:"warden"`
	StartedAt       time.Time    `json:"started_at"`
	URL             string       `json:"url"`
	Model           string       `json:"model"`
	API             string       `json:"api"`
	Simulated       bool         `json:"simulated"`
	DurationSeconds float64      `json:"duration_seconds"`
	Rounds          int          `json:"rounds"`
	Shape           load.Shape   `json:"shape"`
	GapSeconds      float64      `json:"gap_seconds"`
	CharsPerToken   float64      `json:"chars_per_token"`
	Seed            uint64       `json:"seed"`
	KVCapacity      int          `json:"kv_capacity_tokens,omitempty"`
	Results         []load.Named `json:"results"`
}

func (b *bench) figures() any {
	if len(b.o.Replay) > 0 {
		return b.replayFile()
	}
	f := file{
		Schema: control.Schema, Kind: "sessions", Warden: b.o.Version, StartedAt: b.started, URL: b.o.URL, Model: b.o.Model, API: b.o.API,
		Simulated: b.simulated, DurationSeconds: b.o.Duration.Seconds(), Rounds: b.o.Rounds, Shape: b.shape(), GapSeconds: b.o.Gap.Seconds(),
		CharsPerToken: b.o.Chars, Seed: b.o.Seed, KVCapacity: b.capacity, Results: []load.Named{},
	}
	for _, r := range b.results {
		f.Results = append(f.Results, r.Named)
	}
	return f
}
