package front

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/lm-warden/warden/cmd/internal/exit"
	"github.com/lm-warden/warden/cmd/internal/livefile"
	"github.com/lm-warden/warden/router/framing"
	"github.com/lm-warden/warden/router/keepalive"
	"github.com/lm-warden/warden/router/keys"
	"github.com/lm-warden/warden/router/secure"
)

// Options say where keys and certificate are. The zero value lets everybody
// in, without TLS.
type Options struct {
	KeysFile, CertFile, KeyFile string
	// Log and Tell hear of files that changed; Tell is for people who watch.
	Log  *slog.Logger
	Tell func(text string)
}

// Front is the way in.
type Front struct {
	opts        Options
	guard       *keys.Guard         // nil: everybody
	own         string              // a key of this process's own, "" without keys
	certificate *secure.Certificate // nil: no TLS
	keysSeen    *livefile.Seen
	certSeen    *livefile.Seen

	mu       sync.Mutex
	problems map[string]string // by file: why what is in it now does not count
}

// keysFix is what to do about a key file that cannot be used.
const keysFix = "`warden keys add NAME` writes one; a line is a key or sha256:<hex>, then name=, scope=, max_in_flight=; mode 0600"

// Open reads what there is.
func Open(o Options) (*Front, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Tell == nil {
		o.Tell = func(string) {}
	}
	f := &Front{opts: o, problems: map[string]string{}}
	if o.KeysFile != "" {
		f.own = keys.New()
		f.keysSeen = livefile.Look(o.KeysFile)
		f.guard = keys.NewGuard()
		if err := f.readKeys(); err != nil {
			return nil, exit.Fail(exit.Config, fmt.Errorf("api_keys_file %s: %w", o.KeysFile, err), keysFix)
		}
	}
	if o.CertFile != "" {
		var err error
		f.certSeen = livefile.Look(o.CertFile, o.KeyFile)
		if f.certificate, err = secure.Load(o.CertFile, o.KeyFile); err != nil {
			return nil, exit.Fail(exit.Config, err, "tls_cert and tls_key name a PEM certificate chain and its private key")
		}
	}
	return f, nil
}

// Keys are for the router; nil without.
func (f *Front) Keys() *keys.Guard { return f.guard }

// OwnKey lets this process use its own API.
func (f *Front) OwnKey() string { return f.own }

// Serve answers on l until the server is closed.
func (f *Front) Serve(server *http.Server, l net.Listener) error {
	if f.certificate == nil {
		return keepalive.Serve(server, framing.Listen(l))
	}
	f.certificate.Configure(server)
	return server.Serve(f.certificate.Listen(l, framing.Wrap))
}

// Client asks this very server, over up to some connections at a time.
func (f *Front) Client(connections int) *http.Client {
	t := &http.Transport{MaxIdleConnsPerHost: connections, DisableKeepAlives: connections == 0, IdleConnTimeout: clientIdle, DisableCompression: true}
	if f.certificate != nil {
		t.TLSClientConfig = f.certificate.ToMyself()
	}
	return &http.Client{Transport: t}
}

// clientIdle is how long a connection to oneself stays open between requests.
const clientIdle = 4 * time.Second

// Probe goes the way of a client's request to base, as far as it needs no
// replica.
func (f *Front) Probe(base string) func(context.Context) error {
	client := f.Client(0)
	return func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/healthz", nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("GET %s: %s", req.URL, resp.Status)
		}
		return nil
	}
}

// Warn says what is unwise about listening at an address.
func (f *Front) Warn(loopback bool) {
	if !loopback && f.certificate == nil {
		f.opts.Log.Warn("keys and prompts travel unencrypted beyond this machine: set tls_cert and tls_key, or put a TLS proxy before warden")
	}
	f.warnOfExpiry()
}

// State is what there is to show.
type State struct {
	Keys        []keys.Use // of this moment
	Certificate string     // its file, "" without TLS
	Expires     time.Time
	Problem     error // what on disk does not count, and why
	// KeysStale and CertificateStale say of which file that is: what was read
	// before counts.
	KeysStale, CertificateStale bool
}

// State describes the way in.
func (f *Front) State() State {
	var s State
	if f.guard != nil {
		for _, use := range f.guard.Uses() {
			if use.Hash != keys.HashOf(f.own) {
				s.Keys = append(s.Keys, use)
			}
		}
	}
	if f.certificate != nil {
		s.Certificate, s.Expires = f.opts.CertFile, f.certificate.Expires()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	s.KeysStale, s.CertificateStale = f.problems[f.opts.KeysFile] != "", f.problems[f.opts.CertFile] != ""
	for _, file := range []string{f.opts.KeysFile, f.opts.CertFile} {
		if text := f.problems[file]; text != "" {
			s.Problem = errors.Join(s.Problem, errors.New(text))
		}
	}
	return s
}
