package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lm-warden/warden/cmd/internal/doctor"
	"github.com/lm-warden/warden/cmd/internal/front/fronttest"
	"github.com/lm-warden/warden/cmd/internal/service/servicetest"
	"github.com/lm-warden/warden/supervisor/control"
	"github.com/lm-warden/warden/supervisor/events"
)

// askWith sends one request with a key and returns the status.
func (w *running) askWith(client *http.Client, method, path, key, body string) (int, string) {
	w.t.Helper()
	req, err := http.NewRequest(method, w.url+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("X-Api-Key", key)
	resp, err := client.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(content)
}

// Keys are added, removed and spoiled under a running warden.
func TestAttackKeysAreReadAgain(t *testing.T) {
	home := newHome(t)
	add := func(name string, flags ...string) string {
		t.Helper()
		out, code := runWarden(t, home, append([]string{"keys", "add", name, "--file", "keys"}, flags...)...)
		if code != 0 {
			t.Fatalf("keys add: %d %s", code, out)
		}
		key, _, _ := strings.Cut(out, "\n")
		return key
	}
	ann := add("ann")
	w := launch(t, home, "--demo", "--demo-sessions", "0", "--dp", "1", "--listen", "127.0.0.1:0", "--api-keys-file", "keys")
	w.waitFor(allReady)
	log := w.watchEvents()
	const chat = `{"model":"qwen3-4b","max_tokens":2,"messages":[{"role":"user","content":"x"}]}`
	status := func(key string) int {
		code, _ := w.askWith(http.DefaultClient, "POST", "/v1/chat/completions", key, chat)
		return code
	}
	if a, none := status(ann), status(""); a != 200 || none != 401 {
		t.Fatalf("ann %d, without a key %d", a, none)
	}
	prometheus := add("prometheus", "--scope", "read")
	await(t, 10*time.Second, "the new key counts", func() bool {
		code, text := w.askWith(http.DefaultClient, "GET", "/metrics", prometheus, "")
		return code == 200 && strings.Contains(text, `warden_access_file_stale{file="api_keys_file"} 0`)
	})
	if code := status(prometheus); code != 403 {
		t.Errorf("a key to read was let to infer: %d", code)
	}
	if out, code := runWarden(t, home, "keys", "remove", "ann", "--file", "keys"); code != 0 {
		t.Fatal(out)
	}
	await(t, 10*time.Second, "the old key is gone", func() bool { return status(ann) == 401 })
	began := time.Now()
	writeFile(t, filepath.Join(home, "keys"), "topsecret scope=everything\n")
	s := w.poll("the problem is shown", func(s control.Status) bool { return s.Access != nil && s.Access.Problem != "" })
	if code, text := w.askWith(http.DefaultClient, "GET", "/metrics", prometheus, ""); code != 200 || !strings.Contains(text, `warden_access_file_stale{file="api_keys_file"} 1`) {
		t.Errorf("with a spoiled file the old key counts no more, or no metric says it: %d", code)
	}
	d, _ := diagnose(t, home)
	if f := d.of("running warden"); f.Mark != doctor.Warn || !strings.Contains(f.Fact, "keys: the API keys as changed cannot be used") {
		t.Errorf("doctor: %+v", f)
	}
	await(t, 5*time.Second, "an event", func() bool {
		_, found := log.find(began, func(e events.Event) bool { return e.Kind == events.KindAccess })
		return found
	})
	if all := s.Access.Problem + w.output.String(); strings.Contains(all, "topsecret") || strings.Contains(all, ann) {
		t.Errorf("a key was told: %s", all)
	}
}

// Beyond loopback and over TLS the watchdog asks at an address that answers,
// and takes the certificate for its own.
func TestWatchdogOverTLS(t *testing.T) {
	home := newHome(t)
	certFile, keyFile := filepath.Join(home, "cert.pem"), filepath.Join(home, "key.pem")
	fronttest.Certificate(t, certFile, keyFile, 1)
	n := servicetest.Listen(t, home)
	launchWith(t, home, []string{"NOTIFY_SOCKET=" + n.Path, "WATCHDOG_USEC=600000"}, "--demo", "--demo-sessions", "0", "--dp", "1",
		"--listen", "0.0.0.0:0", "--insecure", "--tls-cert", certFile, "--tls-key", keyFile)
	n.Expect("READY=1")
	n.Expect("WATCHDOG=1")
}

// TLS from the first request over a renewal to an upgrade.
func TestTLS(t *testing.T) {
	home := newHome(t)
	certFile, keyFile := filepath.Join(home, "cert.pem"), filepath.Join(home, "key.pem")
	fronttest.Certificate(t, certFile, keyFile, 1)
	w := launch(t, home, "--demo", "--demo-sessions", "0", "--dp", "1",
		"--listen", "0.0.0.0:0", "--insecure", "--tls-cert", certFile, "--tls-key", keyFile)
	w.waitFor(allReady)
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(w.url, "https://"))
	w.url = "https://127.0.0.1:" + port
	metrics := ""
	serial := func() (proto string, number int64, err error) {
		content, err := os.ReadFile(certFile)
		if err != nil {
			t.Fatal(err)
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(content)
		transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: pool}}
		defer transport.CloseIdleConnections()
		resp, err := (&http.Client{Transport: transport}).Get(w.url + "/metrics")
		if err != nil {
			return "", 0, err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		metrics = string(text)
		return resp.Proto, resp.TLS.PeerCertificates[0].SerialNumber.Int64(), err
	}
	if proto, number, err := serial(); proto != "HTTP/2.0" || number != 1 || err != nil {
		t.Fatalf("%s, certificate %d, %v", proto, number, err)
	}
	if !strings.Contains(metrics, `warden_access_file_stale{file="tls_cert"} 0`) || !strings.Contains(metrics, "\nwarden_certificate_not_after_seconds ") {
		t.Error("no metric tells of the certificate")
	}
	fronttest.Certificate(t, certFile, keyFile, 2)
	await(t, 10*time.Second, "the renewed certificate", func() bool { _, number, err := serial(); return number == 2 && err == nil })
	if out, code := w.runCommand("upgrade"); code != 0 {
		t.Errorf("upgrade: %d %s", code, out)
	}
	if proto, number, err := serial(); proto != "HTTP/2.0" || number != 2 || err != nil {
		t.Errorf("after the upgrade: %s, certificate %d, %v", proto, number, err)
	}
	if out, code := w.runCommand("env", "codex"); code != 0 || !strings.Contains(out, "https://") {
		t.Errorf("env: %d %s", code, out)
	}
	if out, code := w.runCommand("down"); code != 0 { // the successor is no child of this test
		t.Errorf("down: %d %s", code, out)
	}
}

// Another user of the machine reaches neither an engine nor the control socket,
// and reads none of warden's files.
func TestAttackAsAnotherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can act as somebody else")
	}
	home := newHome(t)
	if err := os.Chmod(home, 0o755); err != nil { // so that warden's own modes decide
		t.Fatal(err)
	}
	w := launch(t, home, "--demo", "--demo-sessions", "0", "--dp", "2", "--listen", "127.0.0.1:0", "--api-keys-file", keysFile(t, home))
	w.waitFor(allReady)
	var sockets, files []string
	err := filepath.WalkDir(filepath.Join(home, "warden"), func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.Type() == fs.ModeSocket:
			sockets = append(sockets, path)
		case d.Type().IsRegular():
			files = append(files, path)
		}
		return nil
	})
	if err != nil || len(sockets) < 5 || len(files) == 0 { // two engines, two shims, the control socket
		t.Fatalf("sockets %v, files %v, %v", sockets, files, err)
	}
	attempt := func(path string) error {
		if conn, err := net.Dial("unix", path); err == nil {
			conn.Close()
			return nil
		} else if _, openErr := os.ReadFile(path); openErr == nil {
			return nil
		} else {
			return errors.Join(err, openErr)
		}
	}
	for _, path := range append(sockets, files...) {
		if err := asAnother(t, func() error { return attempt(path) }); err == nil {
			t.Errorf("another user reached %s", path)
		} else if !errors.Is(err, unix.EACCES) {
			t.Errorf("%s: %v, want permission denied", path, err)
		}
	}
	if err := attempt(sockets[0]); err != nil {
		t.Errorf("its own user cannot: %v", err)
	}
}

// asAnother runs f on a thread of another user, which ends with it.
func asAnother(t *testing.T, f func() error) error {
	t.Helper()
	const nobody = 65534
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		for _, step := range [][2]uintptr{{unix.SYS_SETGROUPS, 0}, {unix.SYS_SETRESGID, nobody}, {unix.SYS_SETRESUID, nobody}} {
			if _, _, errno := unix.RawSyscall(step[0], step[1], step[1], step[1]); errno != 0 {
				result <- fmt.Errorf("cannot become another user: %w", errno)
				return
			}
		}
		result <- f()
	}()
	return <-result
}

// Keys, prompts, answers and the engines' tokens are in no command line, file,
// log, status, dump or profile.
func TestAttackSecrets(t *testing.T) {
	home := newHome(t)
	key, prompt, token := "k-"+strings.Repeat("SECRETKEY", 4), "SECRETPROMPT of a user", "hf_SECRETTOKEN"
	writeFile(t, filepath.Join(home, "keys"), key+"\n")
	w := launchWith(t, home, []string{"HF_TOKEN=" + token, "GOTRACEBACK=all"}, "--demo", "--demo-sessions", "0", "--dp", "1", "--listen", "127.0.0.1:0", "--api-keys-file", "keys")
	w.waitFor(allReady)
	for _, body := range []string{
		fmt.Sprintf(`{"model":"qwen3-4b","max_tokens":2,"messages":[{"role":"user","content":%q}]}`, prompt),
		fmt.Sprintf(`{"model":"qwen3-4b","n":1000,"messages":[{"role":"user","content":%q}]}`, prompt), // refused
		`{"model":"qwen3-4b","messages":` + prompt,                                                     // broken
	} {
		w.askWith(http.DefaultClient, "POST", "/v1/chat/completions", key, body)
		w.askWith(http.DefaultClient, "POST", "/v1/messages", key+"wrong", body)
	}
	// One that is under way while everything is looked at.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "POST", w.url+"/v1/chat/completions", strings.NewReader(fmt.Sprintf(
		`{"model":"qwen3-4b","stream":true,"max_tokens":4000,"ignore_eos":true,"messages":[{"role":"user","content":%q}]}`, prompt)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()

	seen := map[string]string{}
	for pid, line := range relatives(home) {
		seen[fmt.Sprintf("the command line of %d", pid)] = line
	}
	for _, args := range [][]string{{"status", "--json"}, {"status", "-o", "wide"}, {"config", "show"}, {"logs"}, {"keys", "list", "--file", "keys"}, {"doctor"}} {
		seen["warden "+strings.Join(args, " ")], _ = w.runCommand(args...)
	}
	socket := overSocket(filepath.Join(home, "warden", "default", "control.sock"))
	for _, path := range []string{"/v1/config", "/v1/status", "/debug/pprof/goroutine?debug=2", "/debug/pprof/cmdline"} {
		answer, err := socket.Get("http://warden" + path)
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(answer.Body)
		if err := errors.Join(err, answer.Body.Close()); err != nil {
			t.Fatal(err)
		}
		seen[path] = string(content)
	}
	if _, metrics := w.askWith(http.DefaultClient, "GET", "/metrics", key, ""); len(metrics) > 1000 {
		seen["/metrics"] = metrics
	} else {
		t.Errorf("metrics: %s", metrics)
	}
	if err := w.cmd.Process.Signal(syscall.SIGQUIT); err != nil { // the Go runtime prints every stack
		t.Fatal(err)
	}
	<-w.done
	seen["the dump and the log"] = w.output.String()
	if !strings.Contains(w.output.String(), "goroutine ") {
		t.Errorf("no dump came:\n%s", w.output)
	}
	err = filepath.WalkDir(filepath.Join(home, "warden"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		seen[path] = string(content)
		return err
	})
	if err != nil {
		t.Error(err)
	}
	for where, text := range seen {
		for _, secret := range []string{key, key[:12], prompt, "SECRETPROMPT", token} {
			if strings.Contains(text, secret) {
				i := strings.Index(text, secret)
				t.Errorf("%s holds %q: ...%.120q", where, secret, text[max(0, i-60):])
			}
		}
	}
	t.Logf("%d places were searched", len(seen))
}
