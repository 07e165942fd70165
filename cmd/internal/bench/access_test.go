package bench

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lm-warden/warden/cmd/internal/exit"
	"github.com/lm-warden/warden/cmd/internal/load"
	"github.com/lm-warden/warden/supervisor/control"
)

// What stands in the way of the first request is told apart, and what helps.
func TestFixNamesWhatIsInTheWay(t *testing.T) {
	foreign := &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}
	otherName := &tls.CertificateVerificationError{Err: x509.HostnameError{Certificate: &x509.Certificate{}, Host: "127.0.0.1"}}
	for _, c := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("Post: %w", foreign), "`--ca FILE`"},
		{fmt.Errorf("Post: %w", otherName), "`--url https://NAME"},
		{&load.StatusError{Code: http.StatusUnauthorized, Text: "401"}, "`--key-file FILE`"},
		{&load.StatusError{Code: http.StatusForbidden, Text: "403"}, "--scope infer"},
		{&load.StatusError{Code: http.StatusNotFound, Text: "404"}, "--model"},
		{errors.New("connection refused"), "check the address"},
	} {
		if got := fixFor(c.err); !strings.Contains(got, c.want) {
			t.Errorf("%v: %s, want %s", c.err, got, c.want)
		}
	}
}

func TestKeyIn(t *testing.T) {
	for content, want := range map[string]string{
		"wk-abc\n": "wk-abc", "# mine\n\n  wk-abc name=ann scope=infer\nwk-def\n": "wk-abc", "wk-abc": "wk-abc",
	} {
		if got, err := keyIn([]byte(content)); got != want || err != nil {
			t.Errorf("%q: %q, %v", content, got, err)
		}
	}
	for content, want := range map[string]string{"": "no key", "#\n": "no key", "sha256:00 name=a\n": "hashes"} {
		if got, err := keyIn([]byte(content)); got != "" || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %q, %v", content, got, err)
		}
	}
}

// A server with a certificate of its own and keys is measured with both files,
// and neither is done without.
func TestEnter(t *testing.T) {
	const key = "wk-secret"
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+key {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprint(w, "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":1}}\n\ndata: [DONE]\n\n")
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // refused handshakes
	server.StartTLS()
	defer server.Close()
	file := func(name, content string) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	ca := file("ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	good := file("key", key+"\n")
	for _, c := range []struct{ name, key, ca, fix string }{
		{"both", good, ca, ""},
		{"no authority", good, "", "--ca"},
		{"no key", "", ca, "--key-file"},
		{"another key", file("other", "wk-other"), ca, "--key-file"},
		{"no such key file", filepath.Join(t.TempDir(), "none"), ca, "--key-file"},
		{"a file of hashes", file("hashes", "sha256:00"), ca, "--key-file"},
		{"an empty authority", good, file("empty", ""), "--ca"},
	} {
		var out bytes.Buffer
		o := Options{URL: server.URL, Model: "m", API: load.Chat, KeyFile: c.key, CA: c.ca, Sessions: []int{1}, Rounds: 1, Duration: 1, Scale: 1, Out: &out, Err: &out}
		err := o.enter()
		if err == nil {
			b := &bench{o: o}
			err = b.calibrate(context.Background())
		}
		if fix := exit.HintOf(err); (err == nil) != (c.fix == "") || !strings.Contains(fix, c.fix) || err != nil && strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v, fix %q, want %q", c.name, err, fix, c.fix)
		}
	}
}

func TestAKeyIsAskedForBeforeAnythingIsSent(t *testing.T) {
	keys := control.Status{Access: &control.Access{Keys: []control.Key{{Name: "ann"}}}}
	for _, c := range []struct {
		status control.Status
		key    string
		wrong  bool
	}{
		{keys, "", true}, {keys, "wk-x", false}, {control.Status{}, "", false}, {control.Status{Access: &control.Access{TLS: &control.TLS{}}}, "", false},
	} {
		if err := (&Options{APIKey: c.key}).mayEnter(c.status); (err != nil) != c.wrong {
			t.Errorf("%+v, key %q: %v", c.status.Access, c.key, err)
		}
	}
}
