package vllm

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lm-warden/warden/supervisor"
)

// place writes a file below dir, executable, with its folders.
func place(t *testing.T, text string, path ...string) string {
	t.Helper()
	name := filepath.Join(path...)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return name
}

// venv makes what Find looks at in a virtual environment and returns its root.
func venv(t *testing.T, root, version string) string {
	t.Helper()
	place(t, "#!"+root+"/bin/python\n", root, "bin/vllm")
	place(t, "", root, "bin/python")
	if version != "" {
		place(t, "Metadata-Version: 2.4\nName: vllm\nVersion: "+version+"\n\nVersion: not this\n",
			root, "lib/python3.12/site-packages", "vllm-"+version+".dist-info", "METADATA")
	}
	return root
}

func managed(t *testing.T, dir, device, version string) {
	t.Helper()
	name := "vllm-" + version
	local := ""
	if device == supervisor.DeviceCPU {
		name, local = "vllm-cpu-"+version, "+cpu"
	}
	venv(t, filepath.Join(dir, name), version+local)
	place(t, `{"schema":1,"complete":true,"device":"`+device+`","version":"`+version+`"}`, dir, name, "warden-setup.json")
}

func TestFindOrder(t *testing.T) {
	dir := t.TempDir()
	flag, configured, active := venv(t, dir+"/flag", "0.27.1"), venv(t, dir+"/configured", "0.28.0"), venv(t, dir+"/active", "0.29.0")
	path, work := venv(t, dir+"/path", "0.30.0"), dir+"/work"
	venv(t, work+"/.venv", "0.31.0")
	managed(t, dir+"/managed", supervisor.DeviceCUDA, "0.26.0")
	managed(t, dir+"/managed", supervisor.DeviceCUDA, "0.32.0")

	o := FindOptions{
		Flag: flag, Configured: configured + "/bin/vllm", VirtualEnv: active,
		SearchPath: "relative:" + dir + "/nothing:" + path + "/bin", WorkDir: work, ManagedDir: dir + "/managed",
	}
	for _, step := range []struct {
		version, origin string
		drop            func()
	}{
		{"0.27.1", "--vllm", func() { o.Flag = "" }},
		{"0.28.0", "configuration", func() { o.Configured = "" }},
		{"0.29.0", "active virtual environment", func() { o.VirtualEnv = "" }},
		{"0.30.0", "PATH", func() { o.SearchPath = "" }},
		{"0.31.0", "./.venv", func() { o.WorkDir = "" }},
		{"0.32.0", "warden setup", func() { o.ManagedDir = "" }},
	} {
		got, err := Find(o)
		if err != nil {
			t.Fatal(err)
		}
		if got.Version != step.version || got.Origin != step.origin || got.Device != supervisor.DeviceCUDA || len(got.Warnings) > 1 {
			t.Errorf("found %+v, want %s from %s", got, step.version, step.origin)
		}
		step.drop()
	}
	_, err := Find(o)
	var missing *NotFoundError
	if !errors.As(err, &missing) {
		t.Fatalf("err = %v", err)
	}
	for _, want := range []string{"`warden setup`", "--vllm /path/to/vllm", "try without: `warden up --demo`"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error lacks %q: %v", want, err)
		}
	}
}

func TestFindJudges(t *testing.T) {
	dir := t.TempDir()
	for name, tc := range map[string]struct {
		version, device string
		warning         string
		err             string
		found           string // device of what was found
	}{
		"too old":            {version: "0.23.0", err: "is vLLM 0.23.0 and warden needs 0.24 or newer"},
		"oldest":             {version: "0.24.0", found: supervisor.DeviceCUDA, warning: "known holes, all closed in 0.32.0: PYSEC-2026-4000"},
		"newest tested":      {version: "0.32.3", found: supervisor.DeviceCUDA},
		"newer":              {version: "0.33.0", found: supervisor.DeviceCUDA, warning: "newer than the newest tested (0.32)"},
		"one day":            {version: "1.0.0", found: supervisor.DeviceCUDA, warning: "newer than the newest tested"},
		"from source":        {version: "0.32.1.dev7+gabc123", found: supervisor.DeviceCUDA},
		"unknown version":    {version: "", found: supervisor.DeviceCUDA, warning: "cannot be read"},
		"cpu for cpu":        {version: "0.32.0+cpu", device: supervisor.DeviceCPU, found: supervisor.DeviceCPU},
		"cuda for cpu":       {version: "0.32.0", device: supervisor.DeviceCPU, err: "is a build for CUDA"},
		"cpu for cuda":       {version: "0.32.0+cpu", device: supervisor.DeviceCUDA, err: "use --device cpu"},
		"unknown for cpu":    {version: "", device: supervisor.DeviceCPU, found: supervisor.DeviceCPU, warning: "cannot be read"},
		"cuda suffix is one": {version: "0.32.0+cu129", device: supervisor.DeviceCUDA, found: supervisor.DeviceCUDA},
	} {
		t.Run(name, func(t *testing.T) {
			root := venv(t, filepath.Join(dir, strings.ReplaceAll(name, " ", "-")), tc.version)
			got, err := Find(FindOptions{Flag: root, Device: tc.device})
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) || !strings.Contains(err.Error(), "--vllm names: "+root) {
					t.Errorf("err = %v, want %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := Install{Argv: []string{root + "/bin/vllm"}, Version: tc.version, Origin: "--vllm", Device: tc.found}
			if tc.warning != "" {
				if len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], tc.warning) {
					t.Errorf("warnings = %q, want %q", got.Warnings, tc.warning)
				}
				got.Warnings = nil
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestFindGoesOn: what is merely lying around may be unusable without harm, and
// is named when nothing else is there.
func TestFindGoesOn(t *testing.T) {
	dir := t.TempDir()
	old := venv(t, dir+"/old", "0.11.0")
	managed(t, dir+"/managed", supervisor.DeviceCPU, "0.32.0")
	o := FindOptions{SearchPath: old + "/bin", ManagedDir: dir + "/managed", Device: supervisor.DeviceCPU}
	got, err := Find(o)
	if err != nil || got.Origin != "warden setup" || got.Device != supervisor.DeviceCPU {
		t.Errorf("found %+v, %v", got, err)
	}
	o.ManagedDir = ""
	_, err = Find(o)
	if err == nil || !strings.Contains(err.Error(), old+"/bin/vllm (PATH) is vLLM 0.11.0") || !strings.Contains(err.Error(), "`warden setup --device cpu`") {
		t.Errorf("err = %v", err)
	}
}

func TestFindNamedMustDo(t *testing.T) {
	dir := t.TempDir()
	good := venv(t, dir+"/good", "0.32.0")
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		dir + "/nowhere": "is not there",
		plain:            "is no program that can be run",
		dir:              "is not there", // a directory without bin/vllm
	} {
		_, err := Find(FindOptions{Flag: path, VirtualEnv: good})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Find(%s): err = %v, want %q", path, err, want)
		}
	}
}

func TestVersionBehindLinksAndInterpreters(t *testing.T) {
	dir := t.TempDir()
	root := venv(t, dir+"/pipx", "0.30.0")
	link := filepath.Join(dir, "home", "bin", "vllm")
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(root+"/bin/vllm", link); err != nil {
		t.Fatal(err)
	}
	if got := readDistribution(link); got.version != "0.30.0" {
		t.Errorf("behind a link: %+v", got)
	}
	script := place(t, "#!"+root+"/bin/python -I\nimport sys\n", dir, "scripts", "bin", "vllm")
	if got := readDistribution(script); got.version != "" {
		t.Errorf("an interpreter with an argument cannot be told from a path with a blank, yet: %+v", got)
	}
	script = place(t, "#!"+root+"/bin/python\nimport sys\n", dir, "scripts", "bin", "vllm")
	if got := readDistribution(script); got.version != "0.30.0" {
		t.Errorf("by interpreter: %+v", got)
	}
	// An upgrade left the old folder behind.
	venv(t, root, "0.9.2")
	if got := readDistribution(root + "/bin/vllm"); got.version != "0.30.0" {
		t.Errorf("two folders: %+v", got)
	}
	// Another distribution whose folder begins alike.
	other := venv(t, dir+"/other", "")
	place(t, "Name: vllm-router\nVersion: 9.9\n", other, "lib/python3.12/site-packages/vllm-9.9.dist-info/METADATA")
	if got := readDistribution(other + "/bin/vllm"); got.version != "" {
		t.Errorf("another distribution: %+v", got)
	}
}
