package main

import (
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

func TestBenchFlagsAreChecked(t *testing.T) {
	good := benchFlags{api: "chat", sessions: []int{8}, rounds: 1, scale: 1, duration: 1}
	if err := good.check(); err != nil {
		t.Fatal(err)
	}
	for name, edit := range map[string]func(*benchFlags){
		"compare another":  func(f *benchFlags) { f.compare, f.url, f.model = true, "http://x", "m" },
		"url, no model":    func(f *benchFlags) { f.url = "http://x" },
		"api":              func(f *benchFlags) { f.api = "grpc" },
		"no rounds":        func(f *benchFlags) { f.rounds = 0 },
		"no time":          func(f *benchFlags) { f.duration = 0 },
		"negative chars":   func(f *benchFlags) { f.chars = -1 },
		"no sessions":      func(f *benchFlags) { f.sessions = nil },
		"zero sessions":    func(f *benchFlags) { f.sessions = []int{4, 0} },
		"scale of nothing": func(f *benchFlags) { f.scale = 0 },
	} {
		f := good
		edit(&f)
		if f.check() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
