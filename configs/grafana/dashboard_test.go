package grafana

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// dashboard is what the tests look at of Grafana's model.
type dashboard struct {
	Templating struct {
		List []struct {
			Name, Type, Definition string
			IncludeAll             bool
		}
	}
	Panels []panel
}

type panel struct {
	ID                       int
	Type, Title, Description string
	Datasource               struct{ Type, UID string }
	GridPos                  struct{ X, Y, W, H int }
	Targets                  []struct {
		RefID, Expr string
		Datasource  struct{ UID string }
	}
}

func load(t *testing.T) dashboard {
	t.Helper()
	text, err := os.ReadFile("warden.json")
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	if len(d.Panels) < 30 {
		t.Fatalf("only %d panels were read", len(d.Panels))
	}
	return d
}

func TestEveryPanelExplainsItself(t *testing.T) {
	ids, titles := map[int]bool{}, map[string]bool{}
	for _, p := range load(t).Panels {
		if ids[p.ID] || p.ID == 0 {
			t.Errorf("%s: id %d is used twice, or 0", p.Title, p.ID)
		}
		ids[p.ID] = true
		if p.Type == "row" {
			continue
		}
		if titles[p.Title] || p.Title == "" {
			t.Errorf("the title %q is used twice, or missing", p.Title)
		}
		titles[p.Title] = true
		if len(p.Description) < 40 || !strings.HasSuffix(p.Description, ".") {
			t.Errorf("%s: the description %q is no sentence that helps", p.Title, p.Description)
		}
		if p.Datasource.UID != "${datasource}" || len(p.Targets) == 0 {
			t.Errorf("%s: data source %q, %d queries", p.Title, p.Datasource.UID, len(p.Targets))
		}
		for _, q := range p.Targets {
			if q.Datasource.UID != "${datasource}" || q.RefID == "" || q.Expr == "" {
				t.Errorf("%s: query %+v", p.Title, q)
			}
		}
	}
}

func TestPanelsDoNotOverlap(t *testing.T) {
	taken := map[[2]int]string{}
	for _, p := range load(t).Panels {
		if p.GridPos.X+p.GridPos.W > 24 || p.GridPos.W <= 0 || p.GridPos.H <= 0 {
			t.Errorf("%s: %+v is outside the 24 columns", p.Title, p.GridPos)
		}
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if other := taken[at]; other != "" {
					t.Fatalf("%q lies over %q", p.Title, other)
				}
				taken[at] = p.Title
			}
		}
	}
}

func TestVariables(t *testing.T) {
	d := load(t)
	var names []string
	for _, v := range d.Templating.List {
		names = append(names, v.Name)
		if v.Type == "query" && !v.IncludeAll {
			t.Errorf("$%s cannot be All", v.Name)
		}
	}
	if got := strings.Join(names, " "); got != "datasource model replica" {
		t.Errorf("variables: %s", got)
	}
	rate := regexp.MustCompile(`(rate|increase)\([^[]*\[([^]]*)\]`)
	for _, p := range d.Panels {
		for _, q := range p.Targets {
			for _, m := range rate.FindAllStringSubmatch(q.Expr, -1) {
				if m[2] != "$__rate_interval" {
					t.Errorf("%s: the range is %s: with another scrape interval it is wrong", p.Title, m[2])
				}
			}
			selected := strings.Contains(q.Expr, "$model") || strings.Contains(q.Expr, "$replica")
			if ofDaemon := regexp.MustCompile(`placement_duration|events_dropped`).MatchString(q.Expr); selected == ofDaemon {
				t.Errorf("%s: %s does not follow the choice of model or replica", p.Title, q.Expr)
			}
		}
	}
}

// exported reads the golden list of what warden exports: name -> type.
func exported(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "cmd", "internal", "metrics", "testdata", "names.golden"))
	if err != nil {
		t.Fatal(err)
	}
	types := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) >= 2 {
			types[f[0]] = f[1]
		}
	}
	return types
}

var metricName = regexp.MustCompile(`\b(warden_|vllm:)[a-z0-9_]+`)

// unknown returns the names in a query that warden does not export.
func unknown(query string, types map[string]string) (names []string) {
	for _, name := range metricName.FindAllString(query, -1) {
		kind, ok := types[name]
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if base, cut := strings.CutSuffix(name, suffix); cut && types[base] == "histogram" {
				kind, ok = "part", true
			}
		}
		if !ok || kind == "histogram" { // a histogram has no series of its own name
			names = append(names, name)
		}
	}
	return names
}

func TestQueriesAndAlertsUseExportedNames(t *testing.T) {
	types := exported(t)
	for _, p := range load(t).Panels {
		for _, q := range p.Targets {
			if names := unknown(q.Expr, types); len(names) > 0 {
				t.Errorf("%s: warden exports no %v", p.Title, names)
			}
		}
	}
	for _, r := range alerts(t) {
		if names := unknown(r.Expr, types); len(names) > 0 {
			t.Errorf("%s: warden exports no %v", r.Alert, names)
		}
	}
	for query, want := range map[string]int{"warden_nothing": 1, "rate(warden_time_to_first_token_seconds[1m])": 1,
		"warden_requests_total_sum": 1, "warden_time_to_first_token_seconds_sum": 0} {
		if got := unknown(query, types); len(got) != want {
			t.Errorf("%s: %v", query, got)
		}
	}
}

type alert struct {
	Alert, Expr string
	Labels      map[string]string
	Annotations map[string]string
}

func alerts(t *testing.T) []alert {
	t.Helper()
	var file struct {
		Groups []struct{ Rules []alert }
	}
	readYAML(t, "rules.yaml", &file)
	var all []alert
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

func readYAML(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "prometheus", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatal(err)
	}
}

// Each alert says what to do, and a unit test (run by promtool) shows it silent
// as well as firing.
func TestEveryAlertIsTested(t *testing.T) {
	var tests struct {
		Tests []struct {
			AlertRuleTest []struct {
				Alertname string `yaml:"alertname"`
				ExpAlerts []any  `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		} `yaml:"tests"`
	}
	readYAML(t, "rules_test.yaml", &tests)
	silent, firing := map[string]int{}, map[string]int{}
	for _, unit := range tests.Tests {
		for _, c := range unit.AlertRuleTest {
			if len(c.ExpAlerts) == 0 {
				silent[c.Alertname]++
			} else {
				firing[c.Alertname]++
			}
		}
	}
	for _, a := range alerts(t) {
		if silent[a.Alert] < 2 || firing[a.Alert] < 1 {
			t.Errorf("%s is tested %d times silent and %d times firing, want before, while and after", a.Alert, silent[a.Alert], firing[a.Alert])
		}
		if a.Labels["severity"] == "" || a.Annotations["summary"] == "" || a.Annotations["description"] == "" {
			t.Errorf("%s lacks a severity, a summary or a description", a.Alert)
		}
	}
}
