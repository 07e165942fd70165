package bench

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/lm-warden/warden/cmd/internal/exit"
	"github.com/lm-warden/warden/cmd/internal/load"
	"github.com/lm-warden/warden/supervisor/control"
)

// keyFix is how one comes by a key.
const keyFix = "`--key-file FILE` with a key in it: `warden keys add bench > FILE`"

// enter reads the key and the authority that the options name.
func (o *Options) enter() error {
	if o.KeyFile != "" {
		content, err := os.ReadFile(o.KeyFile)
		if err != nil {
			return exit.Fail(exit.Config, fmt.Errorf("cannot read the API key: %w", err), keyFix)
		}
		if o.APIKey, err = keyIn(content); err != nil {
			return exit.Fail(exit.Config, fmt.Errorf("%s %w", o.KeyFile, err), keyFix)
		}
	}
	if o.CA == "" {
		return nil
	}
	content, err := os.ReadFile(o.CA)
	if err != nil {
		return exit.Fail(exit.Config, fmt.Errorf("cannot read the certificate authority: %w", err), "")
	}
	trusted, err := x509.SystemCertPool()
	if err != nil {
		trusted = x509.NewCertPool() // a machine without any
	}
	if !trusted.AppendCertsFromPEM(content) {
		return exit.Fail(exit.Config, fmt.Errorf("%s holds no certificate", o.CA), "--ca names a PEM file: the authority's certificate, or the server's own")
	}
	o.tls = &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}
	return nil
}

// keyIn is the first line of a file that holds a key: what `warden keys add`
// prints. It is never part of an error.
func keyIn(content []byte) (string, error) {
	lines := bufio.NewScanner(bytes.NewReader(content))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if strings.HasPrefix(fields[0], "sha256:") {
			return "", errors.New("holds hashes of keys, of which no key can be made")
		}
		return fields[0], nil
	}
	if err := lines.Err(); err != nil {
		return "", err
	}
	return "", errors.New("holds no key")
}

// mayEnter says before anything is sent that a warden wants a key.
func (o *Options) mayEnter(s control.Status) error {
	if s.Access == nil || len(s.Access.Keys) == 0 || o.APIKey != "" {
		return nil
	}
	return exit.Fail(exit.Config, errors.New("this warden asks for an API key"), keyFix)
}

// fixFor is what to do when the first request fails.
func fixFor(err error) string {
	if _, wrong := errors.AsType[x509.HostnameError](err); wrong {
		return "`--url https://NAME:PORT --model NAME` with a name that the certificate is for"
	}
	if _, foreign := errors.AsType[*tls.CertificateVerificationError](err); foreign {
		return "`--ca FILE` trusts that certificate's authority, or a certificate that signed itself"
	}
	if refused, ok := errors.AsType[*load.StatusError](err); ok {
		switch refused.Code {
		case http.StatusUnauthorized:
			return keyFix
		case http.StatusForbidden:
			return "the key may not ask an engine: `warden keys add bench --scope infer > FILE`, then `--key-file FILE`"
		}
	}
	return "check the address, --model, --api and --api-key; `--chars-per-token 4` asks nothing first"
}
