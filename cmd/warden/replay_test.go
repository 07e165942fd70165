package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lm-warden/warden/cmd/internal/accesslog"
	"github.com/lm-warden/warden/cmd/internal/bench"
	"github.com/lm-warden/warden/cmd/internal/front/fronttest"
	"github.com/lm-warden/warden/cmd/internal/load"
	"github.com/lm-warden/warden/configs"
	"github.com/lm-warden/warden/configs/jsonschema"
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
	out, code := fresh.runCommand("bench", "--replay", copied, "--json", "figures.json")
	if code != 0 || !strings.Contains(out, "recorded (SIMULATED)") {
		t.Fatalf("replay: %d %s", code, out)
	}
	got := replayed(t, filepath.Join(fresh.home, "figures.json"))
	lines := strings.Count(string(content), "\n")
	if got.Log.Requests != lines || got.Log.Sessions < 3 {
		t.Errorf("%d lines, %d planned of %d sessions", lines, got.Log.Requests, got.Log.Sessions)
	}
	holdsToRecording(t, got)
}

// replayed reads a file of figures and holds it to the published schema.
func replayed(t *testing.T, file string) (f bench.ReplayFile) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	schema, err := jsonschema.Decode(configs.ReplaySchema())
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range schema.Check(raw, true) {
		t.Error(fault)
	}
	if err := json.Unmarshal(raw, &f); err != nil || f.Kind != bench.KindReplay || len(f.Replays) != 1 {
		t.Fatalf("%v: %s", err, raw)
	}
	return f
}

// holdsToRecording wants the same load: as many requests, prompts and answers as
// long, as much of them cached.
func holdsToRecording(t *testing.T, f bench.ReplayFile) {
	t.Helper()
	then, now, d := f.Recorded, f.Replays[0].Report, f.Replays[0].Drift
	if d.Sent != f.Log.Requests || then.TurnsFinished+then.TurnsCut != now.TurnsFinished+now.TurnsCut || now.TurnsFailed != 0 || !then.Simulated || !now.Simulated {
		t.Errorf("%d planned, %d sent; then %+v; now %+v", f.Log.Requests, d.Sent, then, now)
	}
	if share := float64(d.PromptReplayed) / float64(d.PromptRecorded); !(share >= 0.98 && share <= 1.02) || f.Replays[0].PromptOff > 0.05 {
		t.Errorf("prompt tokens: %d recorded, %d replayed, p95 off by %.3f", d.PromptRecorded, d.PromptReplayed, f.Replays[0].PromptOff)
	}
	if d.OutputRecorded != d.OutputReplayed {
		t.Errorf("output tokens: %d recorded, %d replayed", d.OutputRecorded, d.OutputReplayed)
	}
	if then.CachedShare == nil || now.CachedShare == nil {
		t.Errorf("cached share: %v recorded, %v replayed", then.CachedShare, now.CachedShare)
	} else if math.Abs(*now.CachedShare-*then.CachedShare) > 0.08 {
		t.Errorf("cached share: %.3f recorded, %.3f replayed", *then.CachedShare, *now.CachedShare)
	}
}

// Each API is recorded and replayed as itself, over TLS and with a key, from two
// logs of which the older one is compressed.
func TestEachAPIIsReplayedAsItself(t *testing.T) {
	home := newHome(t)
	log := filepath.Join(home, "access.log")
	w := launch(t, home, "--demo", "--demo-sessions", "0", "--dp", "2", "--listen", "127.0.0.1:0", "--access-log", log)
	w.waitFor(allReady)
	for i, api := range load.APIs { // each with texts of its own, as different programs have
		if out, code := w.runCommand("bench", "--api", api, "--seed", fmt.Sprint(i), "--sessions", "2", "--duration", "2s", "--scale", "8"); code != 0 {
			t.Fatalf("bench: %d %s", code, out)
		}
	}
	if out, code := w.runCommand("down"); code != 0 {
		t.Fatalf("down: %d %s", code, out)
	}
	<-w.done
	recorded := requestsByPath(t, log)

	home = newHome(t)
	splitLog(t, log, filepath.Join(home, "recorded.log.1.gz"), filepath.Join(home, "recorded.log"))
	fronttest.Certificate(t, filepath.Join(home, "cert.pem"), filepath.Join(home, "key.pem"), 1)
	key, code := runWarden(t, home, "keys", "add", "bench", "--file", "keys")
	if code != 0 {
		t.Fatal(key)
	}
	writeFile(t, filepath.Join(home, "bench.key"), strings.SplitAfter(key, "\n")[0])
	w = launch(t, home, "--demo", "--demo-sessions", "0", "--dp", "2", "--listen", "127.0.0.1:0", "--access-log", "now.log",
		"--api-keys-file", "keys", "--tls-cert", "cert.pem", "--tls-key", "key.pem")
	w.waitFor(allReady)
	if out, code := w.runCommand("bench", "--replay", "recorded.log*"); code != 4 || !strings.Contains(out, "asks for an API key") || !strings.Contains(out, "--key-file FILE") {
		t.Errorf("without a key: %d %s", code, out)
	}
	if out, code := w.runCommand("bench", "--replay", "recorded.log*", "--key-file", "bench.key"); code != 1 || !strings.Contains(out, "`--ca FILE`") {
		t.Errorf("without trust: %d %s", code, out)
	}
	out, code := w.runCommand("bench", "--replay", "recorded.log*", "--key-file", "bench.key", "--ca", "cert.pem", "--json", "figures.json")
	if code != 0 {
		t.Fatalf("replay: %d %s", code, out)
	}
	got := replayed(t, filepath.Join(home, "figures.json"))
	holdsToRecording(t, got)
	if len(got.Log.Files) != 2 || len(got.Log.ByAPI) != len(load.APIs) {
		t.Errorf("replayed %+v", got.Log)
	}
	if out, code := w.runCommand("down"); code != 0 {
		t.Fatalf("down: %d %s", code, out)
	}
	<-w.done
	recorded["/v1/chat/completions"]++ // bench asks once how long a token is
	if diff := cmp.Diff(recorded, requestsByPath(t, filepath.Join(home, "now.log"))); diff != "" {
		t.Errorf("requests by path (-recorded +replayed):\n%s", diff)
	}
}

// requestsByPath counts what a log has of each path, answered or left.
func requestsByPath(t *testing.T, log string) map[string]int {
	t.Helper()
	lines, _, err := accesslog.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	n := map[string]int{}
	for _, l := range lines {
		n[l.Path]++
	}
	return n
}

// splitLog makes two logs of one: the first half compressed, as logrotate does.
func splitLog(t *testing.T, log, older, newer string) {
	t.Helper()
	content, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	half := bytes.IndexByte(content[len(content)/2:], '\n') + len(content)/2 + 1
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write(content[:half]) // into memory
	_ = z.Close()
	writeFile(t, older, packed.String())
	writeFile(t, newer, string(content[half:]))
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
