package main

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/lm-warden/warden/"

// mayImport lists, for each part of the tree, which other parts of ours it may
// import. The longest matching folder counts; a part may always import itself
// and what lies below it. Only the command line and the daemon know all parts;
// the other packages of cmd say here what they need.
var mayImport = map[string][]string{
	"gpu":                       {},
	"router":                    {},
	"router/identity":           {},
	"router/identity/scan":      {},
	"router/placement":          {},
	"router/placement/estimate": {},
	"router/placement/ledger":   {"router/placement/estimate", "router/placement/list", "router/placement/shadow"},
	"router/placement/list":     {},
	"router/placement/queue":    {},
	"router/placement/shadow":   {"router/placement/list"},
	"router/placement/survival": {},
	"configs":                   {},
	"supervisor/events":         {},
	"supervisor":                {},
	"supervisor/machine":        {"supervisor", "supervisor/internal"},
	"supervisor/probe":          {"supervisor", "supervisor/machine"},
	"supervisor/ledger":         {"supervisor", "supervisor/internal"},
	"supervisor/launch":         {"supervisor", "supervisor/internal", "supervisor/shim"},
	"supervisor/keep":           {"supervisor", "supervisor/events", "supervisor/internal", "supervisor/ledger", "supervisor/machine", "supervisor/probe", "supervisor/launch", "supervisor/shim"},
	"supervisor/internal":       {},
	"supervisor/shim":           {"supervisor/internal"},
	"supervisor/simengine":      {},
	"supervisor/vllm":           {"supervisor", "supervisor/internal"},
	"supervisor/control":        {"supervisor/events"},
	"tui":                       {"supervisor/control", "supervisor/events"},
	"cmd/warden":                everything,
	"cmd/internal/accesslog":    {"router"},
	"cmd/internal/advise":       {"supervisor/control"},
	"cmd/internal/agreement":    {"cmd/internal/process", "supervisor", "supervisor/simengine", "supervisor/vllm"},
	"cmd/internal/behind":       {"cmd/internal/exit", "cmd/internal/paths", "cmd/internal/self", "supervisor/control"},
	"cmd/internal/bench":        {"cmd/internal/accesslog", "cmd/internal/exit", "cmd/internal/load", "cmd/internal/remote", "cmd/internal/replay", "cmd/internal/words", "supervisor/control"},
	"cmd/internal/benchpath":    {"cmd/internal/process", "cmd/internal/proxies", "configs", "supervisor/vllm"},
	"cmd/internal/clients":      {},
	"cmd/internal/conns":        {},
	"cmd/internal/daemon":       everything,
	"cmd/internal/doctor":       {"cmd/internal/front", "cmd/internal/paths", "cmd/internal/plan", "cmd/internal/portowner", "cmd/internal/exit", "cmd/internal/words", "configs", "gpu", "router/payload", "supervisor", "supervisor/control", "supervisor/ledger", "supervisor/shim", "supervisor/vllm"},
	"cmd/internal/exit":         {"configs", "supervisor/control"},
	"cmd/internal/front":        {"cmd/internal/exit", "cmd/internal/livefile", "router"},
	"cmd/internal/gpuwatch":     {"cmd/internal/exit", "cmd/internal/paths", "cmd/internal/plan", "cmd/internal/self", "configs", "gpu", "supervisor", "supervisor/control", "supervisor/events", "supervisor/keep", "supervisor/ledger", "supervisor/shim"},
	"cmd/internal/handover":     {"cmd/internal/exit"},
	"cmd/internal/hostmem":      {},
	"cmd/internal/ladder":       {"router", "router/placement", "supervisor/simengine"},
	"cmd/internal/livefile":     {},
	"cmd/internal/load":         {},
	"cmd/internal/manual":       {"cmd/internal/exit", "configs", "tui"},
	"cmd/internal/metrics":      {"gpu", "router", "supervisor"},
	"cmd/internal/overlay":      {"cmd/internal/exit", "configs"},
	"cmd/internal/paths":        {"cmd/internal/exit"},
	"cmd/internal/plan":         {"cmd/internal/exit", "cmd/internal/hostmem", "cmd/internal/paths", "cmd/internal/self", "cmd/internal/words", "configs", "gpu", "supervisor", "supervisor/ledger", "supervisor/shim", "supervisor/vllm"},
	"cmd/internal/portowner":    {},
	"cmd/internal/process":      {"supervisor/shim"},
	"cmd/internal/proxies":      {"cmd/internal/process", "gpu", "supervisor/control"},
	"cmd/internal/rates":        {"supervisor"},
	"cmd/internal/realladder":   {"cmd/internal/ladder", "cmd/internal/load", "cmd/internal/proxies", "cmd/internal/process", "configs", "router/placement", "supervisor", "supervisor/control", "supervisor/simengine", "supervisor/vllm"},
	"cmd/internal/remote":       {"cmd/internal/exit", "cmd/internal/words", "supervisor", "supervisor/control", "supervisor/events", "supervisor/launch"},
	"cmd/internal/replay":       {"cmd/internal/accesslog", "cmd/internal/load", "cmd/internal/words", "router", "router/identity", "router/placement"},
	"cmd/internal/self":         {},
	"cmd/internal/service":      {},
	"cmd/internal/signals":      {},
	"cmd/internal/status":       {"cmd/internal/plan", "cmd/internal/rates", "gpu", "router", "supervisor", "supervisor/control", "supervisor/vllm"},
	"cmd/internal/tracing":      {"router"},
	"cmd/internal/words":        {},
	"cmd/bench-path":            {"cmd/internal/benchpath"},
	"cmd/ladder":                {"cmd/internal/ladder"},
	"cmd/ladder-vllm":           {"cmd/internal/realladder"},
}

var everything = []string{"cmd", "configs", "gpu", "router", "supervisor", "tui"}

// onlyIn says which folder a library stays in, so that it can be replaced there.
var onlyIn = map[string][]string{
	"github.com/NVIDIA/go-nvml":           {"gpu"},
	"github.com/spf13/viper":              {"configs"},
	"github.com/spf13/cobra":              {"cmd/warden", "cmd/internal/manual"},
	"github.com/charmbracelet":            {"tui"},
	"go.opentelemetry.io":                 {"cmd/internal/tracing"},
	"github.com/prometheus/client_golang": {"router", "cmd/internal/metrics"},
}

func TestImportsPointOneWay(t *testing.T) {
	root := filepath.Join("..", "..")
	files := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || d.Name() == "node_modules" || strings.HasPrefix(d.Name(), ".") && len(d.Name()) > 2) {
			return filepath.SkipDir
		}
		if d.IsDir() && path != root && exists(filepath.Join(path, "go.mod")) { // another module, such as a test's tool
			return filepath.SkipDir
		}
		if filepath.Ext(path) != ".go" {
			return nil
		}
		files++
		rel, _ := filepath.Rel(root, path)
		checkFile(t, path, filepath.ToSlash(filepath.Dir(rel)))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 50 {
		t.Errorf("only %d files were read: is the walk right?", files)
	}
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

func checkFile(t *testing.T, path, folder string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
	if err != nil {
		t.Errorf("%s: %v", path, err)
		return
	}
	for _, spec := range parsed.Imports {
		name, _ := strconv.Unquote(spec.Path.Value)
		if ours, ok := strings.CutPrefix(name, module); ok && !allowed(folder, ours) {
			t.Errorf("%s imports %s: mayImport lets %q import only %v", path, ours, part(folder), mayImport[part(folder)])
		}
		for library, folders := range onlyIn {
			if within(name, library) && !strings.HasSuffix(path, "_test.go") && !inAny(folder, folders) {
				t.Errorf("%s imports %s, which stays in %v", path, name, folders)
			}
		}
	}
}

func allowed(folder, ours string) bool {
	p := part(folder)
	if within(ours, p) && part(ours) == p {
		return true
	}
	if within(ours, p) && p != "supervisor" { // below oneself, except the parts of supervisor that have rules of their own
		return true
	}
	for _, other := range mayImport[p] {
		if ours == other || slices.Equal(mayImport[p], everything) && within(ours, other) || within(ours, other) && part(ours) == other {
			return true
		}
	}
	return false
}

// part is the longest folder of mayImport that holds folder.
func part(folder string) string {
	best := ""
	for p := range mayImport {
		if within(folder, p) && len(p) > len(best) {
			best = p
		}
	}
	return best
}

func within(path, folder string) bool { return path == folder || strings.HasPrefix(path, folder+"/") }

func inAny(folder string, folders []string) bool {
	for _, f := range folders {
		if within(folder, f) {
			return true
		}
	}
	return false
}
