package setup

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestUvIndex(t *testing.T) {
	for name, tc := range map[string]struct {
		pip, env []string
		want     []string
		refused  bool
	}{
		"nothing set": {},
		"sections in order": {
			pip: []string{
				"global.index-url='https://global/simple'", "install.index-url='https://install/simple'",
				":env:.extra-index-url='https://a/simple https://b/simple'", "download.index-url='https://no/simple'",
			},
			want: []string{"UV_DEFAULT_INDEX=https://install/simple", "UV_INDEX=https://a/simple https://b/simple"},
		},
		"list over lines": {
			pip:  []string{`global.find-links='\n/opt/a\n/opt/b'`},
			want: []string{"UV_FIND_LINKS=/opt/a,/opt/b"},
		},
		"certificate and host": {
			pip:  []string{"global.cert='/etc/ca.pem'", "global.trusted-host='pypi.local'"},
			want: []string{"SSL_CERT_FILE=/etc/ca.pem", "UV_INSECURE_HOST=pypi.local"},
		},
		"uv's own word stands": {
			pip: []string{"global.index-url='https://global/simple'"},
			env: []string{"UV_DEFAULT_INDEX=https://mine/simple"},
		},
		"no counterpart": {pip: []string{"global.no-index='true'"}, refused: true},
		"not a setting":  {pip: []string{"WARNING: something", "global.timeout='60'"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := uvIndex(tc.pip, tc.env)
			slices.Sort(got)
			if ok == tc.refused {
				t.Errorf("ok = %v", ok)
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestSetupWithUv(t *testing.T) {
	t.Run("reads pip's configuration", func(t *testing.T) {
		m, o := newMachine(t, "python3.11", "uv")
		m.pipSays = []string{"global.index-url='https://mirror/simple'"}
		if _, err := Setup(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		if m.count("uv pip install") != 3 || m.count("python -m pip install") != 0 {
			t.Errorf("commands: %q", m.ran)
		}
		if !slices.Contains(m.env, "UV_DEFAULT_INDEX=https://mirror/simple") {
			t.Errorf("environment: %q", m.env)
		}
	})
	t.Run("leaves what it cannot say to pip", func(t *testing.T) {
		m, o := newMachine(t, "python3.11", "uv")
		m.pipSays = []string{"global.no-index='1'"}
		if _, err := Setup(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		if m.count("uv ") != 0 || m.count("-m pip install") != 3 {
			t.Errorf("commands: %q", m.ran)
		}
	})
	t.Run("brings Python", func(t *testing.T) {
		m, o := newMachine(t, "uv")
		if _, err := Setup(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		if m.count("uv venv --allow-existing --python 3.12 ") != 1 {
			t.Errorf("commands: %q", m.ran)
		}
	})
}

func TestUsablePython(t *testing.T) {
	for _, tc := range []struct {
		p    interpreter
		vllm string
		uv   bool
		want string
	}{
		{p: interpreter{version: [2]int{3, 12}, pip: true}, vllm: "0.32.0"},
		{p: interpreter{version: [2]int{3, 10}, pip: true}, vllm: "0.30.0"},
		{p: interpreter{version: [2]int{3, 10}, pip: true}, vllm: "0.32.0", want: "needs 3.11"},
		{p: interpreter{version: [2]int{3, 9}, pip: true}, vllm: "0.30.0", want: "is Python 3.9"},
		{p: interpreter{version: [2]int{3, 15}, pip: true}, vllm: "0.32.0", want: "is Python 3.15"},
		{p: interpreter{version: [2]int{2, 7}, pip: true}, vllm: "0.32.0", want: "is Python 2.7"},
		{p: interpreter{version: [2]int{3, 12}}, vllm: "0.32.0", want: "no ensurepip"},
		{p: interpreter{version: [2]int{3, 12}}, vllm: "0.32.0", uv: true},
	} {
		err := tc.p.usable(tc.vllm, tc.uv)
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("usable(%v, %s, uv %v) = %v, want %q", tc.p, tc.vllm, tc.uv, err, tc.want)
		}
	}
}

func TestLookPathIgnoresRelativeDirectories(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.WriteFile("uv", nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if got, err := lookPath(Options{Env: []string{"PATH=.:"}}, "uv"); err == nil {
		t.Errorf("found %s through a relative PATH entry", got)
	}
	if got, err := lookPath(Options{Env: []string{"PATH=.:" + dir}}, "uv"); err != nil || got != dir+"/uv" {
		t.Errorf("lookPath = %q, %v", got, err)
	}
}
