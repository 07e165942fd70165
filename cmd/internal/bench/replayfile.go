package bench

import (
	"time"

	"github.com/lm-warden/warden/cmd/internal/load"
	"github.com/lm-warden/warden/cmd/internal/replay"
	"github.com/lm-warden/warden/supervisor/control"
)

// KindReplay is the kind of a ReplayFile.
const KindReplay = "replay"

// ReplayFile is what `warden bench --replay --json` writes. Durations are in
// seconds, shares are 0 to 1; a figure without data is null.
type ReplayFile struct {
	Schema int `json:"schema"`
	// Kind is always replay: other files of bench are sessions that were made up.
	Kind string `json:"kind" oneof:"replay"`
	// Warden is the version that replayed.
	Warden    string    `json:"warden"`
	StartedAt time.Time `json:"started_at"`
	URL       string    `json:"url"`
	// Models were asked.
	Models []string `json:"models"`
	// Speed is how much faster the requests were sent than they came.
	Speed float64 `json:"speed"`
	// CharsPerToken is the length of a token at the beginning; it is learned.
	CharsPerToken float64 `json:"chars_per_token"`
	// Seed decided the texts.
	Seed uint64 `json:"seed"`
	// KVCapacity is how many tokens the KV caches of all replicas hold.
	KVCapacity int `json:"kv_capacity_tokens,omitempty"`
	// Log is what there was to replay.
	Log replay.Log `json:"log"`
	// Recorded is what warden measured of these requests then.
	Recorded load.Report `json:"recorded"`
	// Replays are what was measured at the client now, one for each setting.
	Replays []ReplayRun `json:"replays"`
}

// ReplayRun is one replay.
type ReplayRun struct {
	// Setting is as is, affinity off or affinity on.
	Setting string      `json:"setting"`
	Report  load.Report `json:"report"`
	// Drift is how far it was from the recording.
	Drift load.Drift `json:"drift"`
	// PromptOff is the relative error of its length that 95 % of the prompts do not exceed.
	PromptOff float64 `json:"prompt_tokens_off_p95"`
}

func (b *bench) replayFile() ReplayFile {
	f := ReplayFile{
		Schema: control.Schema, Kind: KindReplay, Warden: b.o.Version, StartedAt: b.started, URL: b.o.URL, Models: b.plan.Models,
		Speed: b.o.Speed, CharsPerToken: b.o.Chars, Seed: b.o.Seed, KVCapacity: b.capacity, Log: b.plan.Log(b.logs),
		Recorded: b.results[0].Report, Replays: append([]ReplayRun{}, b.played...),
	}
	if b.o.Model != "" {
		f.Models = []string{b.o.Model}
	}
	return f
}
