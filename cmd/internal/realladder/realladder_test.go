package realladder

import (
	"bytes"
	"io"
	"math"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/goleak"

	"github.com/lm-warden/warden/cmd/internal/ladder"
	"github.com/lm-warden/warden/cmd/internal/load"
	"github.com/lm-warden/warden/cmd/internal/proxies"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestFit(t *testing.T) {
	for name, tc := range map[string]struct {
		of   func(n float64) float64
		want []float64
	}{
		"exact":               {func(n float64) float64 { return 2 + 3*n + 0.5*n*n }, []float64{2, 3, 0.5}},
		"a negative term":     {func(n float64) float64 { return 100 - 0.001*n }, []float64{100, 0, 0}},
		"only the first term": {func(float64) float64 { return 7 }, []float64{7, 0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			var f fit
			for _, n := range []float64{1, 2, 5, 9, 20} {
				f.add(tc.of(n), 1, n, n*n)
			}
			got := f.solve()
			for i := range got {
				if math.Abs(got[i]-tc.want[i]) > 0.01*(1+tc.want[i]) {
					t.Errorf("factors %v, want %v", got, tc.want)
				}
			}
			if f.worst() > 0.001 {
				t.Errorf("error %v", f.worst())
			}
		})
	}
}

// bodies keeps what is sent and answers with nothing.
type bodies struct{ sent []*http.Request }

func (b *bodies) RoundTrip(r *http.Request) (*http.Response, error) {
	raw, err := io.ReadAll(r.Body)
	if err != nil || int64(len(raw)) != r.ContentLength {
		return nil, io.ErrUnexpectedEOF
	}
	r.Body = io.NopCloser(bytes.NewReader(raw))
	b.sent = append(b.sent, r)
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}, nil
}

func TestAnswersAreForced(t *testing.T) {
	var seen bodies
	client := &http.Client{Transport: replayable{&seen}}
	lengths := map[int64]bool{}
	for _, session := range []string{"a", "b", "c", "d", "e"} {
		r, err := http.NewRequest(http.MethodPost, "http://x/v1/chat/completions", strings.NewReader(`{"model":"m","max_tokens":1}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Session-ID", session)
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		sent := seen.sent[len(seen.sent)-1]
		raw, _ := io.ReadAll(sent.Body)
		body := gjson.ParseBytes(raw)
		n := body.Get("max_tokens").Int()
		lengths[n] = true
		if n < outputMin || n > outputMax || body.Get("allowed_token_ids.0").Int() != answerToken || !body.Get("ignore_eos").Bool() || body.Get("model").String() != "m" {
			t.Errorf("sent %s", raw)
		}
		if sent.Header.Get("X-SMG-Routing-Key") != session {
			t.Errorf("routing key %q", sent.Header.Get("X-SMG-Routing-Key"))
		}
	}
	if len(lengths) < 3 {
		t.Errorf("answers of lengths %v only", lengths)
	}
}

func TestChosen(t *testing.T) {
	all := arms()
	got, err := chosen(all, []string{"warden admission", "HAProxy"})
	if err != nil || len(got) != 2 || got[0].name != "warden admission" || got[1].name != "HAProxy stick-table" {
		t.Errorf("%v %v", got, err)
	}
	if got, err := chosen(all, []string{"admission"}); err != nil || len(got) != 2 {
		t.Errorf("%d arms are called something with admission, want 2; %v", len(got), err)
	}
	if got, err := chosen(all, nil); err != nil || len(got) != len(all) {
		t.Errorf("%d arms of %d, %v", len(got), len(all), err)
	}
	if _, err := chosen(all, []string{"nginx"}); err == nil || !strings.Contains(err.Error(), `"nginx"`) || !strings.Contains(err.Error(), ownName) {
		t.Errorf("error %v", err)
	}
}

// Each simulated counterpart must be a policy of the simulated ladder.
func TestCounterpartsExist(t *testing.T) {
	for _, a := range arms() {
		if a.simulated == "" {
			continue
		}
		if _, err := ladder.NewPolicy(a.simulated, ladder.Run{}); err != nil {
			t.Errorf("%s: %v", a.name, err)
		}
	}
}

func TestProgramsAreToldTheCosts(t *testing.T) {
	b := &bed{engines: []string{"http://127.0.0.1:7001"}}
	b.rates = Rates{Prefill: [3]float64{0.01, 0.00025, 1e-9}, Decode: [3]float64{0.004, 0.0002, 1e-7}}
	argv, err := programs(b).Argv(proxies.Home{}, "vllm-router", "127.0.0.1", "99")
	if err != nil {
		t.Fatal(err)
	}
	settings := gjson.Parse(argv[len(argv)-1])
	for path, want := range map[string]float64{
		"token_capacity_per_target": 10016, "prefill_cost_model.linear_seconds_per_1k_tokens": 0.25,
		"prefill_cost_model.quadratic_seconds_per_1k_tokens_squared": 0.001, "decode_throughput_model.fixed_step_seconds": 0.004,
	} {
		if got := settings.Get(path).Float(); math.Abs(got-want) > 1e-9 {
			t.Errorf("%s is %v, want %v", path, got, want)
		}
	}
}

func TestMissingPeerIsNamed(t *testing.T) {
	b := &bed{home: proxies.Home{Peers: t.TempDir()}}
	a := peerArm("x", "", func(*bed) proxies.Peer { return proxies.Peer{Program: "no-such-router"} })
	if why := a.missing(b); !strings.Contains(why, "no-such-router") {
		t.Errorf("missing: %q", why)
	}
}

func cellOf(arm string, round, sessions int, tokens float64, p50 float64) Cell {
	return Cell{Arm: arm, Round: round, Report: load.Report{Sessions: sessions, OutputTokensPerMin: tokens, SessionsPerHour: tokens / 5, TTFTp50: &p50}}
}

func sampleReport() Report {
	return Report{
		Machine: proxies.Machine{CPU: "a chip", Cores: []int{0, 1}, LoadBefore: 3},
		Seconds: 50, Scale: Scale, Shape: shape(), Arms: []string{"warden admission", "b", "c"},
		Absent: []Absent{{"smg cache_aware", "smg is not installed"}},
		Cells: []Cell{
			cellOf("warden admission", 0, 8, 1000, 0.1), cellOf("b", 0, 8, 500, 0.5), cellOf("c", 0, 8, 520, 0.4),
			cellOf("warden admission", 1, 8, 3000, 0.3), cellOf("b", 1, 8, 700, 0.9),
			cellOf("warden admission", 2, 8, 2000, 0.2),
		},
		Simulated: []SimulatedCell{
			{"warden admission", ladder.Result{Sessions: 8, OutputPerMinute: 400}},
			{"b", ladder.Result{Sessions: 8, OutputPerMinute: 660}},
			{"c", ladder.Result{Sessions: 8, OutputPerMinute: 300}},
		},
	}
}

func TestMedians(t *testing.T) {
	r := sampleReport()
	f, rounds := r.median("warden admission", 8)
	if rounds != 3 || f.TokensPerMinute != 2000 || f.P50 != 0.2 || !math.IsNaN(f.P95) {
		t.Errorf("%d rounds, %+v", rounds, f)
	}
	if f, rounds := r.median("b", 8); rounds != 2 || f.TokensPerMinute != 600 || math.Abs(f.P50-0.7) > 1e-9 {
		t.Errorf("%d rounds, %+v", rounds, f)
	}
	// Measured 2000, 600 and 520, simulated 400, 660 and 300.
	alike, equal, other := r.orders(8)
	if alike != 2 || len(equal) != 0 || len(other) != 1 || other[0] != [2]string{"warden admission", "b"} {
		t.Errorf("%d alike, %v equal, %v the other way", alike, equal, other)
	}
	r.Simulated[1].OutputPerMinute = 401
	if alike, equal, other = r.orders(8); alike != 2 || len(equal) != 1 || len(other) != 0 {
		t.Errorf("400 and 401 simulated: %d alike, %v equal, %v the other way", alike, equal, other)
	}
	r.Cells[2].Report.OutputTokensPerMin = 590
	if alike, _, _ = r.orders(8); alike != 1 {
		t.Errorf("%d pairs alike: 600 and 590 measured are no pair", alike)
	}
}

func TestMarkdown(t *testing.T) {
	var b bytes.Buffer
	if err := sampleReport().WriteMarkdown(&b); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for _, want := range []string{
		"**The machine was shared:** its load average was 3.0", "Absent: smg cache_aware (smg is not installed).",
		"## 8 sessions", "| warden admission | 3 | 400 | 2000 | 0.20 s | - |",
		"| tokens/min | 2000 | 600 | b | 3.33 |", "| TTFT p50 | 0.20 s | 0.40 s | c | 0.50 |",
		"SIMULATED", "| b | 660 | 600 | 1.10 |", "orders 2 alike, tells 0 not apart, and orders 1 the other way (warden admission and b).",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestMeanOfRates(t *testing.T) {
	got := mean([]Rates{
		{Prefill: [3]float64{1, 2, 3}, Decode: [3]float64{2, 0, 0}, Error: 0.1},
		{Prefill: [3]float64{3, 4, 5}, Decode: [3]float64{4, 2, 0}, Cached: 4, Error: 0.3},
		{Prefill: [3]float64{2, 3, 4}, Decode: [3]float64{3, 1, 0}, Cached: 6},
	})
	want := Rates{Prefill: [3]float64{2, 3, 4}, Decode: [3]float64{3, 1, 0}, Cached: 5, Error: 0.3}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestSimulateIsRepeatableAndRanks(t *testing.T) {
	r := Rates{Prefill: [3]float64{0.008, 0.00025}, Decode: [3]float64{0.0047}}
	play := func(policy string) ladder.Result {
		t.Helper()
		got, err := simulate(r, policy, 16, 2*time.Minute, 1)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	admission, affinity := play("admission"), play("affinity")
	if again := play("admission"); again.OutputPerMinute != admission.OutputPerMinute {
		t.Errorf("%v tokens/min, then %v", admission.OutputPerMinute, again.OutputPerMinute)
	}
	if admission.OutputPerMinute < 1.3*affinity.OutputPerMinute {
		t.Errorf("16 sessions overflow the KV cache: %.0f tokens/min with admission, %.0f with affinity", admission.OutputPerMinute, affinity.OutputPerMinute)
	}
	// Little's law: what is measured adds up to the sessions that were there.
	if affinity.Little < 0.8 || affinity.Little > 1.05 {
		t.Errorf("Little %v", affinity.Little)
	}
}
