package proxies

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestFind(t *testing.T) {
	h := Home{Peers: t.TempDir()}
	for _, version := range []string{"1", "2"} {
		program := filepath.Join(h.Peers, "smg-"+version, "bin", "smg")
		if err := os.MkdirAll(filepath.Dir(program), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(program, nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := h.Find("smg"), filepath.Join(h.Peers, "smg-2", "bin", "smg"); got != want {
		t.Errorf("found %q, want %q", got, want)
	}
	if got := h.Find("no-such-router"); got != "" {
		t.Errorf("found %q", got)
	}
	if got := h.Versions(t.Context(), "smg", "no-such-router"); len(got) != 1 || got["smg"] != "2" {
		t.Errorf("versions %v", got)
	}
}

func argvOf(t *testing.T, h Home, p Peer) []string {
	t.Helper()
	argv, err := p.Argv(h, p.Program, "127.0.0.1", "99")
	if err != nil {
		t.Fatal(err)
	}
	return argv
}

func holds(t *testing.T, file string, lines ...string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		if !strings.Contains(string(text), line) {
			t.Errorf("no %q in\n%s", line, text)
		}
	}
}

func TestConfigurations(t *testing.T) {
	h := Home{Dir: t.TempDir()}
	engines := []string{"http://127.0.0.1:7001", "unix:/s/r1.sock"}
	argvOf(t, h, HAProxy(engines))
	holds(t, filepath.Join(h.Dir, "haproxy.cfg"),
		"  option http-no-delay\n", "  bind 127.0.0.1:99\n", "  stick on req.hdr(X-Session-ID)\n  server r0 127.0.0.1:7001\n  server r1 unix@/s/r1.sock\n")
	argvOf(t, h, Nginx(engines))
	holds(t, filepath.Join(h.Dir, "nginx.conf"),
		"hash $http_x_session_id consistent;\n    server 127.0.0.1:7001;\n    server unix:/s/r1.sock;\n", "listen 127.0.0.1:99 ", "proxy_buffering off;", "pid "+h.Dir+"/nginx.pid;\n")
}

func TestCommandLines(t *testing.T) {
	argv := argvOf(t, Home{}, VLLMRouter([]string{"http://a:1", "http://b:2"}, "--policy", "consistent_hash"))
	if !slices.Equal(argv[:4], []string{"vllm-router", "--worker-urls", "http://a:1", "http://b:2"}) || !slices.Equal(argv[len(argv)-2:], []string{"--policy", "consistent_hash"}) {
		t.Errorf("%q", argv)
	}
	if at := slices.Index(argv, "--prometheus-port"); at < 0 || argv[at+1] == "0" || argv[at+1] == "99" {
		t.Errorf("no port of its own for metrics: %q", argv)
	}
	argv = argvOf(t, Home{}, SMG([]string{"http://a:1"}, "--policy", "manual"))
	want := []string{"smg", "launch", "--worker-urls", "http://a:1", "--host", "127.0.0.1", "--port", "99", "--policy", "manual"}
	if !slices.Equal(argv, want) {
		t.Errorf("%q, want %q", argv, want)
	}
}

func TestMachine(t *testing.T) {
	m, err := DescribeMachine()
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Cores) == 0 || m.Kernel == "" || !strings.Contains(m.Memory, "kB") || m.Versions["go"] == "" {
		t.Errorf("%+v", m)
	}
	m.LoadBefore = 3
	var b strings.Builder
	m.WriteMarkdown(&b)
	if !strings.Contains(b.String(), "**The machine was shared:** its load average was 3.0") || !strings.Contains(b.String(), "Versions: go "+strings.TrimPrefix(m.Versions["go"], "go ")) {
		t.Errorf("%s", b.String())
	}
}
