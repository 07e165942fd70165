package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A load is recorded, then played again on other simulated engines: as many
// requests of as many sessions, prompts and answers as long, as much cached.
func TestAReplayIsTheLoadThatWasRecorded(t *testing.T) {
	home := newHome(t)
	log := filepath.Join(home, "access.log")
	w := launch(t, home, "--demo", "--demo-sessions", "0", "--dp", "2", "--listen", "127.0.0.1:0", "--access-log", log)
	w.waitFor(allReady)
	if out, code := w.runCommand("bench", "--sessions", "3", "--duration", "6s", "--scale", "4", "--gap", "100ms"); code != 0 {
		t.Fatalf("bench: %d %s", code, out)
	}
	if out, code := w.runCommand("down"); code != 0 {
		t.Fatalf("down: %d %s", code, out)
	}
	<-w.done

	fresh := start(t, "--dp", "2")
	copied := filepath.Join(fresh.home, "recorded.log")
	content, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, copied, string(content))
	figures := filepath.Join(fresh.home, "figures.json")
	out, code := fresh.runCommand("bench", "--replay", copied, "--json", figures)
	if code != 0 || !strings.Contains(out, "recorded (SIMULATED)") {
		t.Fatalf("replay: %d %s", code, out)
	}
	var got struct {
		Results []struct {
			Report struct {
				Finished int     `json:"turns_finished"`
				Failed   int     `json:"turns_failed"`
				Cut      int     `json:"turns_cut"`
				Cached   float64 `json:"cached_share"`
			}
		}
		Replays []struct {
			Requests int     `json:"requests"`
			Sent     int     `json:"requests_sent"`
			Sessions int     `json:"sessions"`
			Recorded int     `json:"prompt_tokens_recorded"`
			Replayed int     `json:"prompt_tokens_replayed"`
			Off      float64 `json:"prompt_tokens_off_p95"`
			OutThen  int     `json:"output_tokens_recorded"`
			OutNow   int     `json:"output_tokens_replayed"`
		}
	}
	raw, err := os.ReadFile(figures)
	if err == nil {
		err = json.Unmarshal(raw, &got)
	}
	if err != nil || len(got.Results) != 2 || len(got.Replays) != 1 {
		t.Fatalf("%v: %s", err, raw)
	}
	then, now, r := got.Results[0].Report, got.Results[1].Report, got.Replays[0]
	lines := strings.Count(string(content), "\n")
	if r.Requests != lines || r.Sent != lines || then.Finished+then.Cut != now.Finished+now.Cut || now.Failed != 0 || r.Sessions < 3 {
		t.Errorf("%d lines, %d planned, %d sent; finished and cut %d+%d, then %d+%d", lines, r.Requests, r.Sent, then.Finished, then.Cut, now.Finished, now.Cut)
	}
	if share := float64(r.Replayed) / float64(r.Recorded); share < 0.98 || share > 1.02 || r.Off > 0.05 {
		t.Errorf("prompt tokens: %d recorded, %d replayed, p95 off by %.3f", r.Recorded, r.Replayed, r.Off)
	}
	if r.OutThen != r.OutNow {
		t.Errorf("output tokens: %d recorded, %d replayed", r.OutThen, r.OutNow)
	}
	if d := now.Cached - then.Cached; d < -0.08 || d > 0.08 {
		t.Errorf("cached share: %.3f recorded, %.3f replayed", then.Cached, now.Cached)
	}
}

func TestWhatCannotBeReplayedIsNamed(t *testing.T) {
	w := start(t, "--dp", "1")
	line := `{"time":"2026-11-30T12:00:00Z","request_id":"a","path":"/v1/messages","model":"MODEL","status":200,"outcome":"complete",` +
		`"bytes_in":1,"bytes_out":1,"prompt_tokens":20,"output_tokens":1,"wait_seconds":0,"duration_seconds":1,"retries":0}` + "\n"
	for name, c := range map[string]struct{ content, want string }{
		"foreign":       {line + "127.0.0.1 - - GET /\n", "in.log:2: not a line of warden's access log"},
		"empty":         {"", "holds no request that could be replayed"},
		"another model": {strings.Replace(line, "MODEL", "other-model", 1), `model "other-model" is not served`},
	} {
		writeFile(t, filepath.Join(w.home, "in.log"), c.content)
		if out, code := w.runCommand("bench", "--replay", "in.log"); code != 1 || !strings.Contains(out, c.want) {
			t.Errorf("%s: exit %d\n%s", name, code, out)
		}
	}
	writeFile(t, filepath.Join(w.home, "in.log"), line+line[:40])
	if out, code := w.runCommand("bench", "--replay", "in.log", "--model", "qwen3-4b"); code != 0 || !strings.Contains(out, "ends in the middle of a line") {
		t.Errorf("a log that is still written: exit %d\n%s", code, out)
	}
}
