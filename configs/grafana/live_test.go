package grafana

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

var prometheusURL = flag.String("prometheus", "", "ask every query of this Prometheus, which must scrape a warden with load")

// patience is how long a query may have no data: rates need some scrapes, and a
// restart in the demo some seconds.
const patience = 90 * time.Second

// series is one line of an instant answer.
type series struct {
	Metric map[string]string
	Value  [2]any // seconds, "number"
}

// ask calls Prometheus' HTTP API and decodes its data.
func ask(ctx context.Context, path string, values url.Values, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, *prometheusURL+path+"?"+values.Encode(), nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	var answer struct {
		Error string
		Data  json.RawMessage
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return fmt.Errorf("%s: %s", resp.Status, body)
	}
	if answer.Error != "" {
		return fmt.Errorf("%s", answer.Error)
	}
	return json.Unmarshal(answer.Data, into)
}

// sample is one series with a value.
type sample struct {
	labels string
	value  float64
}

func (s sample) String() string {
	return strings.TrimSpace(s.labels + " " + strconv.FormatFloat(s.value, 'g', 4, 64))
}

// numbers are the series whose value is a number, the largest first: a quantile
// of nothing is NaN, which a panel shows as a gap.
func numbers(found []series) (samples []sample) {
	for _, s := range found {
		v, err := strconv.ParseFloat(fmt.Sprint(s.Value[1]), 64)
		if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
			continue
		}
		var labels []string
		for _, name := range []string{"model", "gpu", "replica", "reason", "result", "kind", "state", "cause", "phase", "code", "finished_reason", "le"} {
			if value := s.Metric[name]; value != "" {
				labels = append(labels, name+"="+value)
			}
		}
		samples = append(samples, sample{strings.Join(labels, " "), v})
	}
	slices.SortStableFunc(samples, func(a, b sample) int { return cmp.Compare(b.value, a.value) })
	return samples
}

// quiet are what is 0 in a demo that is well. Every other query must have a
// value above that: a metric that is always 0 is not one.
var quiet = regexp.MustCompile(`state!="ready"|requests_failed|retries_total|requests_waiting|num_requests_waiting|prefix_breaks|` +
	`events_dropped|samples_dropped|gpu_throttled|num_preemptions`)

func enough(query string, found []sample) bool {
	return len(found) > 0 && (found[0].value > 0 || quiet.MatchString(query))
}

// answered asks until there is data, and returns it.
func answered(t *testing.T, query string) ([]sample, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	again := time.NewTicker(time.Second)
	defer again.Stop()
	for {
		var answer struct{ Result []series }
		err := ask(ctx, "/api/v1/query", url.Values{"query": {query}}, &answer)
		found := numbers(answer.Result)
		if err != nil || enough(query, found) {
			return found, err
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("nothing but %v in %s", found, patience)
		}
	}
}

// chosen replaces what Grafana replaces: every model, every replica, and a range
// that still holds what happened before the first query.
var chosen = strings.NewReplacer("$__rate_interval", "2m", "$model", ".*", "$replica", ".*")

func TestEveryQueryReturnsData(t *testing.T) {
	if *prometheusURL == "" {
		t.Skip("needs a Prometheus: scripts/test-prometheus.sh runs this")
	}
	row := ""
	for _, p := range load(t).Panels {
		if p.Type == "row" {
			row = p.Title
			fmt.Printf("\n## %s\n", row)
			continue
		}
		fmt.Printf("\n%s (%s)\n", p.Title, p.Type)
		for _, q := range p.Targets {
			found, err := answered(t, chosen.Replace(q.Expr))
			if err != nil {
				t.Errorf("%s, %s: %v: %s", row, p.Title, err, q.Expr)
				continue
			}
			fmt.Printf("  %s\n    = %d series: %v\n", strings.Join(strings.Fields(q.Expr), " "), len(found), found[:min(3, len(found))])
		}
	}
}

var labelValues = regexp.MustCompile(`^label_values\((.*), (\w+)\)$`)

func TestEveryVariableHasValues(t *testing.T) {
	if *prometheusURL == "" {
		t.Skip("needs a Prometheus: scripts/test-prometheus.sh runs this")
	}
	for _, v := range load(t).Templating.List {
		if v.Type != "query" {
			continue
		}
		m := labelValues.FindStringSubmatch(v.Definition)
		if m == nil {
			t.Errorf("$%s: %s", v.Name, v.Definition)
			continue
		}
		var values []string
		err := ask(t.Context(), "/api/v1/label/"+m[2]+"/values", url.Values{"match[]": {chosen.Replace(m[1])}}, &values)
		if err != nil || len(values) == 0 {
			t.Errorf("$%s: %v, %v", v.Name, values, err)
		}
		fmt.Printf("$%s = %v\n", v.Name, values)
	}
}

// In a demo that is well, every alert can be computed and none fires.
func TestAlertsAreComputedAndSilent(t *testing.T) {
	if *prometheusURL == "" {
		t.Skip("needs a Prometheus: scripts/test-prometheus.sh runs this")
	}
	var answer struct {
		Groups []struct {
			Rules []struct{ Name, Health, LastError, State string }
		}
	}
	if err := ask(t.Context(), "/api/v1/rules", nil, &answer); err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, g := range answer.Groups {
		for _, r := range g.Rules {
			seen++
			if r.Health != "ok" || r.State == "firing" {
				t.Errorf("%s is %s, %s %s", r.Name, r.State, r.Health, r.LastError)
			}
		}
	}
	if want := len(alerts(t)); seen != want {
		t.Errorf("Prometheus knows %d rules, the file has %d", seen, want)
	}
}
