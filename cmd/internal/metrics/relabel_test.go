package metrics

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
)

// realText is what a vLLM of that version answered.
func realText(t testing.TB, version string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "supervisor", "vllm", "testdata", "metrics", version+".prom"))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// written is the text of families in the order of their names.
func written(t *testing.T, all families) string {
	t.Helper()
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if _, err := expfmt.MetricFamilyToText(&b, all[name]); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

func TestRelabel(t *testing.T) {
	tests := []struct {
		name, text, want string
		dropped          int
	}{
		{"a gauge",
			"# HELP vllm:g Some.\n# TYPE vllm:g gauge\nvllm:g{engine=\"0\"} 2\n",
			"# HELP vllm:g Some.\n# TYPE vllm:g gauge\nvllm:g{engine=\"0\",replica=\"r1\"} 2\n", 0},
		{"no labels",
			"# TYPE vllm:c_total counter\nvllm:c_total 7\n",
			"# TYPE vllm:c_total counter\nvllm:c_total{replica=\"r1\"} 7\n", 0},
		{"a time stamp is not ours to pass on",
			"# TYPE vllm:c_total counter\nvllm:c_total 7 1395066363000\n",
			"# TYPE vllm:c_total counter\nvllm:c_total{replica=\"r1\"} 7\n", 0},
		{"a histogram",
			"# TYPE vllm:h histogram\nvllm:h_bucket{le=\"1\"} 1\nvllm:h_bucket{le=\"+Inf\"} 2\nvllm:h_sum 3\nvllm:h_count 2\n",
			"# TYPE vllm:h histogram\nvllm:h_bucket{replica=\"r1\",le=\"1\"} 1\nvllm:h_bucket{replica=\"r1\",le=\"+Inf\"} 2\n" +
				"vllm:h_sum{replica=\"r1\"} 3\nvllm:h_count{replica=\"r1\"} 2\n", 0},
		{"its own label of that name",
			"# TYPE vllm:g gauge\nvllm:g{replica=\"mine\"} 2\n",
			"# TYPE vllm:g gauge\nvllm:g{exported_replica=\"mine\",replica=\"r1\"} 2\n", 0},
		{"values that need quoting",
			"# TYPE vllm:g gauge\nvllm:g{model_name=\"a\\\"b\\\\c\\nd\"} 2\n",
			"# TYPE vllm:g gauge\nvllm:g{model_name=\"a\\\"b\\\\c\\nd\",replica=\"r1\"} 2\n", 0},
		{"what is not the engine's",
			"# TYPE python_info gauge\npython_info 1\n# TYPE http_requests_total counter\nhttp_requests_total{handler=\"/x\"} 1\n", "", 0},
		{"times of creation",
			"# TYPE vllm:c_created gauge\nvllm:c_created 1.7e9\n", "", 0},
		{"nothing", "", "", 0},
		{"too many in one family",
			"# TYPE vllm:a gauge\n" + series("vllm:a", maxSamples+1) + "# TYPE vllm:b gauge\nvllm:b 1\n",
			"# TYPE vllm:b gauge\nvllm:b{replica=\"r1\"} 1\n", maxSamples + 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, dropped, err := relabel([]byte(tt.text), "r1")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, written(t, got)); diff != "" {
				t.Error(diff)
			}
			if dropped != tt.dropped {
				t.Errorf("%d dropped, want %d", dropped, tt.dropped)
			}
		})
	}
}

func series(name string, n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(name + "{i=\"" + strconv.Itoa(i) + "\"} 1\n")
	}
	return b.String()
}

func TestRelabelRefusesWhatIsNoMetrics(t *testing.T) {
	for _, text := range []string{"<html>", "vllm:g{engine=\"0} 1\n", "vllm:g one\n", "# TYPE vllm:g gauge\n# TYPE vllm:g gauge\nvllm:g 1\n"} {
		if found, _, err := relabel([]byte(text), "r0"); err == nil {
			t.Errorf("%q: %d families and no error", text, len(found))
		}
	}
}

// Everything that a real vLLM exports of itself is passed on, once for each
// replica.
func TestRelabelRealEngines(t *testing.T) {
	for version, least := range map[string]int{"0.26.0": 10, "0.32.0-cpu": 35} {
		t.Run(version, func(t *testing.T) {
			text := realText(t, version)
			want := 0
			for line := range strings.Lines(string(text)) {
				name, _, _ := strings.Cut(line, "{")
				if strings.HasPrefix(name, prefix) && !strings.HasSuffix(name, created) {
					want++
				}
			}
			all := families{}
			for _, id := range []string{"r0", "r1"} {
				found, dropped, err := relabel(text, id)
				if err != nil || dropped != 0 {
					t.Fatalf("%d dropped, %v", dropped, err)
				}
				if dropped := all.add(found); dropped != 0 {
					t.Errorf("%d dropped although both say the same", dropped)
				}
			}
			if len(all) < least {
				t.Errorf("%d families, want at least %d", len(all), least)
			}
			lines := 0
			for line := range strings.Lines(written(t, all)) {
				if !strings.HasPrefix(line, "#") {
					lines++
				}
			}
			if lines != 2*want {
				t.Errorf("%d samples of two replicas, want twice %d", lines, want)
			}
		})
	}
}

func TestFamiliesOfDifferentEngines(t *testing.T) {
	read := func(id, text string) families {
		found, _, err := relabel([]byte(text), id)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	all := read("r0", "# HELP vllm:a Old words.\n# TYPE vllm:a gauge\nvllm:a 1\n# TYPE vllm:b gauge\nvllm:b 1\n")
	dropped := all.add(read("r1", "# HELP vllm:a New words.\n# TYPE vllm:a gauge\nvllm:a 2\n# TYPE vllm:b counter\nvllm:b 2\n# TYPE vllm:c gauge\nvllm:c 2\n"))
	want := "# HELP vllm:a Old words.\n# TYPE vllm:a gauge\nvllm:a{replica=\"r0\"} 1\nvllm:a{replica=\"r1\"} 2\n" +
		"# TYPE vllm:b gauge\nvllm:b{replica=\"r0\"} 1\n# TYPE vllm:c gauge\nvllm:c{replica=\"r1\"} 2\n"
	if diff := cmp.Diff(want, written(t, all)); diff != "" {
		t.Error(diff)
	}
	if dropped != 1 {
		t.Errorf("%d dropped, want the one whose type differs", dropped)
	}
}

func FuzzRelabel(f *testing.F) {
	for _, seed := range []string{
		"", "vllm:g 1\n", "# TYPE vllm:g gauge\nvllm:g{replica=\"x\",exported_replica=\"y\"} NaN\n",
		"# TYPE vllm:h histogram\nvllm:h_bucket{le=\"+Inf\"} 2\nvllm:h_sum 3\nvllm:h_count 2\n",
		"# TYPE vllm:s summary\nvllm:s{quantile=\"0.5\"} 2\nvllm:s_sum 3\nvllm:s_count 2\n", "{\"vllm:quoted name\",a=\"b\"} 1\n",
	} {
		f.Add([]byte(seed))
	}
	f.Add(realText(f, "0.26.0"))
	f.Fuzz(func(t *testing.T, text []byte) {
		found, dropped, err := relabel(text, "r7")
		if err != nil {
			return
		}
		total := 0
		for name, family := range found {
			if !strings.HasPrefix(name, prefix) || family.GetName() != name {
				t.Errorf("family %q named %q", name, family.GetName())
			}
			total += samples(family)
			for _, m := range family.Metric {
				if n := count(m.Label, "r7"); n != 1 {
					t.Errorf("%d labels name the replica in %v", n, m)
				}
			}
		}
		if total > maxSamples || dropped < 0 {
			t.Errorf("%d samples, %d dropped", total, dropped)
		}
	})
}

func count(labels []*dto.LabelPair, value string) int {
	n := 0
	for _, l := range labels {
		if l.GetName() == replicaLabel && l.GetValue() == value {
			n++
		}
	}
	return n
}

// Four replicas of vLLM 0.32 are one answer of about 120 kB.
func BenchmarkRelabel(b *testing.B) {
	text := realText(b, "0.32.0-cpu")
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := relabel(text, "r0"); err != nil {
			b.Fatal(err)
		}
	}
}
