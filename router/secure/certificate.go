package secure

import (
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"
)

// Certificate is what the server shows to clients that connect from now on.
type Certificate struct {
	now atomic.Pointer[tls.Certificate]
}

// Load reads a certificate chain and its private key, both PEM.
func Load(certFile, keyFile string) (*Certificate, error) {
	c := &Certificate{}
	return c, c.Reload(certFile, keyFile)
}

// Reload replaces the certificate; after an error the one before stays. One that
// has expired does not replace one that has not: clients would refuse it.
func (c *Certificate) Reload(certFile, keyFile string) error {
	info, err := os.Stat(keyFile)
	if err != nil {
		return fmt.Errorf("cannot read the private key: %w", err)
	}
	if mode := info.Mode().Perm(); mode&0o007 != 0 {
		return fmt.Errorf("private key %s: mode %04o lets everybody use it, chmod 600 it", keyFile, mode)
	}
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return fmt.Errorf("certificate %s with key %s: %w", certFile, keyFile, err)
	}
	now, end := time.Now(), pair.Leaf.NotAfter
	if before := c.now.Load(); before != nil && !now.Before(end) && now.Before(before.Leaf.NotAfter) {
		return fmt.Errorf("certificate %s expired on %s, the one before is valid until %s",
			certFile, end.UTC().Format(time.DateOnly), before.Leaf.NotAfter.UTC().Format(time.DateOnly))
	}
	c.now.Store(&pair)
	return nil
}

// Expires is when clients stop to accept the certificate.
func (c *Certificate) Expires() time.Time { return c.now.Load().Leaf.NotAfter }

func (c *Certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	pair := c.now.Load()
	if pair == nil {
		return nil, errors.New("no certificate")
	}
	return pair, nil
}

// Shown reports whether a peer shows the certificate of now: it is this very
// server. For one that asks itself by an address its certificate may not name.
func (c *Certificate) Shown(state tls.ConnectionState) error {
	if len(state.PeerCertificates) == 0 || !state.PeerCertificates[0].Equal(c.now.Load().Leaf) {
		return errors.New("another server answers: it shows another certificate")
	}
	return nil
}

// ToMyself are a client's settings for requests to this very server.
func (c *Certificate) ToMyself() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, //nolint:gosec // Shown is stricter: this one certificate, whoever signed it
		VerifyConnection:   c.Shown,
	}
}

// config is the server's side of TLS.
func (c *Certificate) config() *tls.Config {
	return &tls.Config{GetCertificate: c.get, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
}
