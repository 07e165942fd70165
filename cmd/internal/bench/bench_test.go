package bench

import (
	"math"
	"strings"
	"testing"

	"github.com/lm-warden/warden/cmd/internal/load"
)

func TestLossTextNamesTheCause(t *testing.T) {
	named := func(p50, longest float64) load.Named {
		return load.Named{Report: load.Report{Sessions: 24, TTFBp50: &p50, PromptTokensLongest: &longest}}
	}
	for _, tc := range []struct {
		name     string
		off, on  load.Named
		capacity int
		want     string // "" = nothing to tell
	}{
		{"won", named(2, 13000), named(0.4, 13000), 160000, ""},
		{"noise", named(2, 13000), named(2.1, 13000), 160000, ""},
		{"too much", named(5.06, 13000), named(13.14, 13000), 160000,
			"24 sessions: affinity made the median first byte slower (13.14s against 5.06s). They grow to 312k tokens together, the KV caches hold 160k: fewer sessions"},
		{"something else", named(1, 1000), named(2, 1000), 160000, "that is not the cause"},
		{"capacity unknown", named(1, 1000), named(2, 1000), 0, "(2.00s against 1.00s)."},
		{"not measured", load.Named{}, named(2, 1000), 160000, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := lossText(load.Pair{Off: tc.off, On: tc.on}, tc.capacity)
			if (tc.want == "") != (got == "") || !strings.Contains(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestOptionsAreChecked(t *testing.T) {
	good := Options{API: "chat", Sessions: []int{8}, Rounds: 1, Scale: 1, Duration: 1, Speed: 1}
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	for name, edit := range map[string]func(*Options){
		"compare another":  func(o *Options) { o.Compare, o.URL, o.Model = true, "http://x", "m" },
		"url, no model":    func(o *Options) { o.URL = "http://x" },
		"api":              func(o *Options) { o.API = "grpc" },
		"no rounds":        func(o *Options) { o.Rounds = 0 },
		"no time":          func(o *Options) { o.Duration = 0 },
		"negative chars":   func(o *Options) { o.Chars = -1 },
		"no sessions":      func(o *Options) { o.Sessions = nil },
		"zero sessions":    func(o *Options) { o.Sessions = []int{4, 0} },
		"scale of nothing": func(o *Options) { o.Scale = 0 },
		"speed of what":    func(o *Options) { o.Speed = 2 },
		"backwards":        func(o *Options) { o.Replay, o.Speed = []string{"log"}, -1 },
		"all at once":      func(o *Options) { o.Replay, o.Speed = []string{"log"}, math.Inf(1) },
		"scaled replay":    func(o *Options) { o.Replay, o.Scale = []string{"log"}, 2 },
	} {
		o := good
		edit(&o)
		if o.Check() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
