package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/lm-warden/warden/configs"
	"github.com/lm-warden/warden/configs/jsonschema"
	"github.com/lm-warden/warden/gpu/gputest"
	"github.com/lm-warden/warden/supervisor/control"
)

// TestScripts runs the command line as its users do: testdata/script/*.txtar,
// each with directories of its own. `exits CODE warden ...` asserts the exit
// code; stdout and stderr then assert what was printed where.
func TestScripts(t *testing.T) {
	library := ""
	if _, err := exec.LookPath("gcc"); err == nil {
		library = gputest.Build(t)
	}
	if err := os.Chmod(filepath.Dir(binary), 0o755); err != nil { // another user runs it in notallowed.txtar
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup:               func(env *testscript.Env) error { return setUpScript(env, library) },
		Condition: func(name string) (bool, error) {
			switch name {
			case "gcc":
				return library != "", nil
			case "root":
				return os.Getuid() == 0, nil
			}
			return false, fmt.Errorf("unknown condition %q", name)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "gpus": setGPUs, "hold-port": holdPort, "stale-socket": staleSocket,
			"plain": onlyPlain, "wait-ready": waitReady, "wait-affinity": waitAffinity, "max-lines": maxLines, "matches-schema": matchesSchema, "as-nobody": asNobody,
			"fetch": fetch, "our-words": ourWords,
		},
	})
}

func setUpScript(env *testscript.Env, library string) error {
	home, err := os.MkdirTemp("", "ws-") // short: unix sockets are
	if err != nil {
		return err
	}
	for _, v := range environment(home) {
		name, value, _ := strings.Cut(v, "=")
		env.Setenv(name, value)
	}
	env.Setenv("PATH", filepath.Dir(binary)+string(filepath.ListSeparator)+os.Getenv("PATH"))
	env.Setenv("LIB", library)
	env.Setenv("STATE", filepath.Join(env.WorkDir, "gpus"))
	env.Setenv("SOCKET", filepath.Join(home, "warden", "default", "control.sock"))
	env.Setenv("VIRTUAL_ENV", "")
	env.Defer(func() {
		down := exec.Command(binary, "down", "--now")
		down.Env = environment(home)
		_ = down.Run() // most scripts have stopped theirs
		for pid, command := range processesOf(home) {
			env.T().(testing.TB).Errorf("left behind: %d %s", pid, command)
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		os.RemoveAll(home)
	})
	return nil
}

// exits CODE PROGRAM ARGS... runs a program that must end with that code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARGS...")
	}
	code := 0
	err := ts.Exec(args[1], args[2:]...)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v: %v", args[1:], err)
	}
	if want, err := strconv.Atoi(args[0]); err != nil || code != want {
		ts.Fatalf("exit code %d, want %s", code, args[0])
	}
}

// gpus N [busy INDEX] makes N simulated A4000 the driver's; INDEX, in the order
// of the bus, is mostly used by the process of this test.
func setGPUs(ts *testscript.TestScript, neg bool, args []string) {
	n, err := strconv.Atoi(strings.Join(args[:min(1, len(args))], ""))
	ts.Check(err)
	lines := gputest.A4000s(n)
	if len(args) == 3 {
		index, err := strconv.Atoi(args[2])
		ts.Check(err)
		nvml := n - 1 - index // A4000s numbers them against the order of the bus
		lines = append(lines, fmt.Sprintf("proc %d %d 11469", nvml, os.Getpid()))
	}
	ts.Check(os.WriteFile(ts.Getenv("STATE"), []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	ts.Setenv(gputest.StateEnv, ts.Getenv("STATE"))
	ts.Setenv("WARDEN_NVML_LIBRARY", ts.Getenv("LIB"))
}

// hold-port binds a loopback port until the script ends and sets $PORT.
func holdPort(ts *testscript.TestScript, neg bool, args []string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { l.Close() })
	ts.Setenv("PORT", strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
	ts.Setenv("TESTPID", strconv.Itoa(os.Getpid()))
}

// stale-socket PATH leaves a socket behind that nobody listens on.
func staleSocket(ts *testscript.TestScript, neg bool, args []string) {
	path := args[0]
	ts.Check(os.MkdirAll(filepath.Dir(path), 0o700))
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	ts.Check(err)
	l.SetUnlinkOnClose(false)
	ts.Check(l.Close())
}

// wait-ready returns when a warden of this script has all replicas ready.
func waitReady(ts *testscript.TestScript, neg bool, args []string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		client, err := control.Dial(ctx, ts.Getenv("SOCKET"))
		if err == nil {
			defer client.Close()
			for msg, err := range client.Watch(ctx) {
				ts.Check(err)
				if s := msg.Status; s != nil && len(s.Replicas) > 0 && s.Count(control.StateReady) == len(s.Replicas) {
					return
				}
			}
			ts.Fatalf("the warden ended before it was ready")
		}
		select {
		case <-ctx.Done():
			ts.Fatalf("no warden answers: %v", err)
		case <-tick.C:
		}
	}
}

// wait-affinity on|off returns when the model's affinity is that.
func waitAffinity(ts *testscript.TestScript, neg bool, args []string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, err := control.Dial(ctx, ts.Getenv("SOCKET"))
	ts.Check(err)
	defer client.Close()
	for msg, err := range client.Watch(ctx) {
		ts.Check(err)
		if msg.Status != nil && msg.Status.Models[0].Affinity == (args[0] == "on") {
			return
		}
	}
	ts.Fatalf("affinity did not become %s", args[0])
}

// plain FILE asserts that a text holds no escape sequences or other controls.
func onlyPlain(ts *testscript.TestScript, neg bool, args []string) {
	text := ts.ReadFile(args[0])
	if strings.TrimSpace(text) == "" {
		ts.Fatalf("%s is empty", args[0])
	}
	bad := strings.IndexFunc(text, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r == 0x7f || r == '\u009b' })
	if (bad >= 0) != neg {
		ts.Fatalf("control characters in %s: %v (at byte %d)", args[0], bad >= 0, bad)
	}
}

// max-lines N FILE
func maxLines(ts *testscript.TestScript, neg bool, args []string) {
	limit, err := strconv.Atoi(args[0])
	ts.Check(err)
	if n := strings.Count(ts.ReadFile(args[1]), "\n"); n > limit {
		ts.Fatalf("%d lines, at most %d are allowed", n, limit)
	}
}

// matches-schema status|config FILE checks a document against a published
// schema; what the schema does not know is an error here.
func matchesSchema(ts *testscript.TestScript, neg bool, args []string) {
	published := map[string][]byte{"status": configs.StatusSchema(), "advise": configs.AdviseSchema(), "config": configs.Schema()}[args[0]]
	schema, err := jsonschema.Decode(published)
	ts.Check(err)
	if found := schema.Check([]byte(ts.ReadFile(args[1])), true); (len(found) > 0) != neg {
		ts.Fatalf("against the schema of %s: %s", args[0], strings.Join(found, "\n"))
	}
}

// fetch PATH FILE gets a path of the running warden's API.
func fetch(ts *testscript.TestScript, neg bool, args []string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, err := control.Dial(ctx, ts.Getenv("SOCKET"))
	ts.Check(err)
	defer client.Close()
	status, err := client.Status(ctx)
	ts.Check(err)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, status.Listen+args[0], nil)
	ts.Check(err)
	resp, err := http.DefaultClient.Do(req)
	ts.Check(err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	ts.Check(err)
	if resp.StatusCode != http.StatusOK {
		ts.Fatalf("GET %s: %s", args[0], resp.Status)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), body, 0o600))
}

// our-words FILE asserts that a text has none of the words that mean something
// else to the reader.
func ourWords(ts *testscript.TestScript, neg bool, args []string) {
	if found := foreignWords(ts.ReadFile(args[0])); len(found) > 0 {
		ts.Fatalf("%s: say replica, engine or process instead of %q", args[0], found)
	}
}

// as-nobody CODE ARGS... runs warden as the user nobody, with this
// environment; it needs root.
func asNobody(ts *testscript.TestScript, neg bool, args []string) {
	const nobody = 65534
	cmd := exec.Command(binary, args[1:]...)
	cmd.Env = []string{"HOME=/", "PATH=" + ts.Getenv("PATH"), "XDG_RUNTIME_DIR=" + ts.Getenv("XDG_RUNTIME_DIR")}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		ts.Fatalf("%v", err)
	}
	ts.Check(os.WriteFile(ts.MkAbs("nobody.txt"), out, 0o600))
	if code := cmd.ProcessState.ExitCode(); strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit code %d, want %s:\n%s", code, args[0], out)
	}
}
