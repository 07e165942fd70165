package main

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Every name in the list that dashboards are checked against comes from a
// running warden that has served; its engines' series are simulated.
func TestMetricsOfARunningWarden(t *testing.T) {
	w := start(t)
	post := func(path, body string) {
		resp, err := http.Post(w.url+path, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			t.Fatal(err)
		}
	}
	post("/v1/chat/completions", `{"model":"m","stream":true,"max_tokens":4,"messages":[{"role":"user","content":"hello"}]}`)
	resp, err := http.Get(w.url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	types, engines := map[string]string{}, map[string]bool{}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if f := strings.Fields(lines.Text()); len(f) == 4 && f[1] == "TYPE" {
			types[f[2]] = f[3]
		}
		if _, rest, ok := strings.Cut(lines.Text(), "vllm:num_requests_running{"); ok {
			_, rest, _ = strings.Cut(rest, `replica="`)
			id, _, _ := strings.Cut(rest, `"`)
			engines[id] = true
		}
	}
	if len(engines) != 4 {
		t.Errorf("figures of the engines %v, want those of 4 replicas", engines)
	}
	golden, err := os.ReadFile(filepath.Join("..", "internal", "metrics", "testdata", "names.golden"))
	if err != nil {
		t.Fatal(err)
	}
	// What only an access log, a collector, keys, a certificate and a GPU's fault
	// bring is looked at in observe_test.go, attack_access_test.go and
	// figures_gpufaults_test.go.
	later := []string{"warden_access_log_lines_dropped_total", "warden_spans_dropped_total", "warden_access_file_stale",
		"warden_certificate_not_after_seconds", "warden_gpu_xids_total"}
	for line := range strings.Lines(string(golden)) {
		f := strings.Fields(line)
		// The simulated engine has no figures about floating point operations.
		if strings.HasPrefix(f[0], "vllm:estimated_") || slices.Contains(later, f[0]) {
			continue
		}
		if types[f[0]] != f[1] {
			t.Errorf("%s is %q, want %s", f[0], types[f[0]], f[1])
		}
	}
}
