package secure

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// files are the paths of a certificate and its key.
type files struct{ cert, key string }

// write makes a certificate of its own for serial.
func (f files) write(t *testing.T, serial int64) *x509.CertPool {
	t.Helper()
	return f.writeUntil(t, serial, time.Now().Add(time.Duration(serial)*time.Hour))
}

func (f files) writeUntil(t *testing.T, serial int64, end time.Time) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), DNSNames: []string{"warden.test"},
		NotBefore: end.Add(-24 * time.Hour), NotAfter: end, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	for name, content := range map[string][]byte{f.cert: text, f.key: pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: raw})} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	return pool
}

func newFiles(t *testing.T) files {
	dir := t.TempDir()
	return files{filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")}
}

// marked is a connection that http1 has seen.
type marked struct{ net.Conn }

// serve starts a server that answers with the protocol and whether http1 saw
// the connection.
func serve(t *testing.T, c *Certificate) (address string, stop func()) {
	t.Helper()
	under, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := c.Listen(under, func(conn net.Conn) net.Conn { return marked{conn} })
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		fmt.Fprint(w, req.Proto)
	})}
	c.Configure(server)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	return under.Addr().String(), func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	}
}

func ask(t *testing.T, address string, pool *x509.CertPool, http2 bool, version uint16) (string, *tls.ConnectionState, error) {
	t.Helper()
	transport := &http.Transport{ForceAttemptHTTP2: http2, TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "warden.test", MaxVersion: version}}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport, Timeout: 10 * time.Second}).Get("https://" + address)
	if err != nil {
		return "", nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return string(body), resp.TLS, err
}

func TestProtocols(t *testing.T) {
	f := newFiles(t)
	pool := f.write(t, 1)
	c, err := Load(f.cert, f.key)
	if err != nil {
		t.Fatal(err)
	}
	address, stop := serve(t, c)
	defer stop()
	for _, want := range []string{"HTTP/1.1", "HTTP/2.0"} {
		if got, _, err := ask(t, address, pool, want == "HTTP/2.0", 0); got != want || err != nil {
			t.Errorf("%q %v, want %s", got, err, want)
		}
	}
	if _, state, err := ask(t, address, pool, true, tls.VersionTLS12); err != nil || state.Version != tls.VersionTLS12 {
		t.Errorf("TLS 1.2: %v", err)
	}
	if _, _, err := ask(t, address, pool, true, tls.VersionTLS11); err == nil {
		t.Error("TLS 1.1 was accepted")
	}
	resp, err := http.Get("http://" + address)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, _ := io.ReadAll(resp.Body); resp.StatusCode != 400 || !strings.Contains(string(body), "https://") {
		t.Errorf("plain HTTP: %d %s", resp.StatusCode, body)
	}
}

// A renewed certificate is shown to the next client; a broken one is refused
// and the old one stays.
func TestReload(t *testing.T) {
	f := newFiles(t)
	f.write(t, 1)
	c, err := Load(f.cert, f.key)
	if err != nil {
		t.Fatal(err)
	}
	address, stop := serve(t, c)
	defer stop()
	pool := f.write(t, 2)
	if err := c.Reload(f.cert, f.key); err != nil {
		t.Fatal(err)
	}
	shown := func() {
		t.Helper()
		if _, state, err := ask(t, address, pool, true, 0); err != nil || state.PeerCertificates[0].SerialNumber.Int64() != 2 {
			t.Errorf("not the second certificate: %v", err)
		}
	}
	shown()
	if left := time.Until(c.Expires()); left < time.Hour || left > 2*time.Hour {
		t.Errorf("expires in %s", left)
	}
	good, err := os.ReadFile(f.key)
	if err != nil {
		t.Fatal(err)
	}
	f.write(t, 3)
	for name, c3 := range map[string]struct {
		content []byte
		mode    os.FileMode
	}{
		"a key of another certificate": {good, 0o600}, "half a key": {good[:40], 0o600}, "open to all": {good, 0o604},
	} {
		if err := errors.Join(os.WriteFile(f.key, c3.content, 0o600), os.Chmod(f.key, c3.mode)); err != nil {
			t.Fatal(err)
		}
		if err := c.Reload(f.cert, f.key); err == nil || bytes.Contains([]byte(err.Error()), good[40:80]) {
			t.Errorf("%s: %v", name, err)
		}
		shown()
	}
}

// A backup that is copied back, or a link to the wrong directory: clients would refuse what they accepted until then.
func TestAnExpiredCertificateReplacesNoValidOne(t *testing.T) {
	f := newFiles(t)
	past := time.Now().Add(-time.Hour)
	f.writeUntil(t, 1, past)
	c, err := Load(f.cert, f.key)
	if err != nil {
		t.Fatalf("at the start, where there is no better one: %v", err)
	}
	f.writeUntil(t, 2, past.Add(time.Minute))
	if err := c.Reload(f.cert, f.key); err != nil {
		t.Errorf("in place of another expired one: %v", err)
	}
	f.write(t, 3)
	if err := c.Reload(f.cert, f.key); err != nil {
		t.Fatal(err)
	}
	valid := c.Expires()
	f.writeUntil(t, 4, past)
	if err := c.Reload(f.cert, f.key); err == nil || !strings.Contains(err.Error(), "expired on "+past.UTC().Format(time.DateOnly)) {
		t.Errorf("in place of a valid one: %v", err)
	}
	if !c.Expires().Equal(valid) {
		t.Errorf("expires %s, want that of before, %s", c.Expires(), valid)
	}
}

// A server that asks itself takes its own certificate and no other.
func TestClientOfItself(t *testing.T) {
	f, g := newFiles(t), newFiles(t)
	f.write(t, 1)
	g.write(t, 2)
	c, err := Load(f.cert, f.key)
	if err != nil {
		t.Fatal(err)
	}
	other, err := Load(g.cert, g.key)
	if err != nil {
		t.Fatal(err)
	}
	address, stop := serve(t, c)
	defer stop()
	for name, of := range map[string]*Certificate{"its own": c, "another's": other} {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: of.ToMyself()}}
		resp, err := client.Get("https://" + address)
		if err == nil {
			resp.Body.Close()
		}
		if (err == nil) != (of == c) {
			t.Errorf("%s certificate: %v", name, err)
		}
	}
}

// Silent clients hold nobody up, and closing does not wait for them.
func TestSilentClients(t *testing.T) {
	f := newFiles(t)
	pool := f.write(t, 1)
	c, err := Load(f.cert, f.key)
	if err != nil {
		t.Fatal(err)
	}
	address, stop := serve(t, c)
	for range 50 {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	if got, _, err := ask(t, address, pool, true, 0); got != "HTTP/2.0" || err != nil {
		t.Errorf("%q %v", got, err)
	}
	stop() // goleak sees handshakes that stay
}
