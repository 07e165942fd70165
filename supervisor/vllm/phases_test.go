package vllm

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lm-warden/warden/supervisor"
)

// logLines reads a file of testdata/logs without its note on where it is from.
func logLines(t testing.TB, name string) []string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "logs", name))
	if err != nil {
		t.Fatal(err)
	}
	note, rest, _ := strings.Cut(string(raw), "\n")
	if !strings.HasPrefix(note, "# ") {
		t.Fatalf("%s does not say where it is from", name)
	}
	return strings.FieldsFunc(rest, func(r rune) bool { return r == '\n' || r == '\r' })
}

// shown is a phase as a test writes it.
func shown(p supervisor.Phase) string {
	s := p.Name
	if p.Detail != "" {
		s += " " + p.Detail
	}
	if p.Total > 0 {
		s += fmt.Sprintf(" %d/%d", p.Done, p.Total)
	}
	if p.KVTokens > 0 {
		s += fmt.Sprintf(" kv=%d", p.KVTokens)
	}
	return s
}

func TestPhases(t *testing.T) {
	for name, want := range map[string][]string{
		"0.32.0-cpu/cold.log": {
			"spawn vLLM 0.32.0", "spawn reading the configuration", "spawn engine process",
			"weights", "weights loaded", "profile kv=40000",
			"serve engine is up", "serve", "serve",
		},
		"0.26.0-cuda/cold.log": {
			"spawn reading the configuration", "spawn reading the configuration", "spawn engine process",
			"weights", "weights downloaded", "weights shards 0/3", "weights shards 2/3", "weights loaded", "weights 7.5532 GiB",
			"compile", "compile first run only, then cached", "compile first run only, then cached", "compile done",
			"profile", "profile kv=39392",
			"graphs 29/51", "graphs 35/35", "graphs done",
			"serve engine is up", "serve", "serve",
		},
		"0.32.0-cuda/warm.log": {
			"spawn reading the configuration", "spawn reading the configuration", "spawn engine process",
			"weights", "weights shards 3/3", "weights loaded", "weights 7.55 GiB",
			"compile loaded from cache", "profile", "profile", "profile", "profile kv=39392",
			"graphs 41/51", "graphs done", "serve engine is up", "serve", "serve",
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := New(Install{}, Options{Environ: []string{}})
			var got []string
			for _, line := range logLines(t, name) {
				if p, ok := e.Phase(line); ok {
					got = append(got, shown(p))
				}
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestPhaseOfOneLine(t *testing.T) {
	e := New(Install{}, Options{Environ: []string{}})
	for line, want := range map[string]string{
		"Loading safetensors checkpoint shards:  56% Completed | 5/9 [00:01<00:01,  3.1it/s]":                                     "weights shards 5/9",
		"Fetching 10 files:  30%|███       | 3/10 [00:02<00:05,  1.2it/s]":                                                        "weights downloading 3/10",
		"(EngineCore pid=1) INFO 01-01 00:00:00 [x.py:1] GPU KV cache size: 1,234,567 tokens":                                     "profile kv=1234567",
		"(EngineCore pid=1) INFO 01-01 00:00:00 [x.py:1] GPU + host KV cache size: 12 tokens":                                     "profile kv=12",
		"(EngineCore pid=1) INFO 01-01 00:00:00 [x.py:1] KV cache size: unknown":                                                  "",
		"(Worker_TP0 pid=1) INFO 01-01 00:00:00 [monitor.py:20] torch.compile took 8.1 s in total":                                "compile done",
		"Capturing CUDA graphs (decode, FULL):  80%|████████  | 41/51 [00:02<00:00, 14.9it/s]":                                    "graphs 41/51",
		"Capturing CUDA graphs (decode, FULL):   0%|          | 0/0 [00:00<?, ?it/s]":                                             "graphs",
		"Capturing CUDA graphs (decode, FULL): | 99999999999999999999/99999999999999999999 [":                                     "graphs",
		"(APIServer pid=1) INFO 01-01 00:00:00 [launcher.py:195] Route: /version, Methods: GET":                                   "",
		"(APIServer pid=1) INFO 01-01 00:00:00 [loggers.py:1] Engine 000: Avg prompt throughput: 812.4 tokens/s, Running: 5 reqs": "",
		"": "",
	} {
		p, ok := e.Phase(line)
		if got := shown(p); got != want || ok != (want != "") {
			t.Errorf("Phase(%q) = %q, %v; want %q", line, got, ok, want)
		}
	}
}

func FuzzPhase(f *testing.F) {
	for _, file := range []string{"0.32.0-cpu/cold.log", "0.26.0-cuda/cold.log", "0.32.0-cuda/warm.log"} {
		for _, line := range logLines(f, file) {
			f.Add(line)
		}
	}
	e := New(Install{}, Options{Environ: []string{}})
	f.Fuzz(func(t *testing.T, line string) {
		p, ok := e.Phase(line)
		if ok != (p.Name != "") {
			t.Errorf("ok = %v with phase %+v", ok, p)
		}
		if p.Done < 0 || p.Done > p.Total || p.KVTokens < 0 || len(p.Detail) > 200 {
			t.Errorf("phase out of bounds: %+v", p)
		}
	})
}
