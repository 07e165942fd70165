package daemon

import (
	"net"

	"github.com/lm-warden/warden/cmd/internal/front"
	"github.com/lm-warden/warden/cmd/internal/metrics"
	"github.com/lm-warden/warden/configs"
	"github.com/lm-warden/warden/supervisor/control"
	"github.com/lm-warden/warden/supervisor/events"
)

// newFront opens the way in as configured.
func (d *Daemon) newFront() (*front.Front, error) {
	f, err := front.Open(front.Options{
		KeysFile: d.cfg.APIKeysFile, CertFile: d.cfg.TLSCert, KeyFile: d.cfg.TLSKey, Log: d.log,
		Tell: func(text string) { d.bus.Publish(events.Event{Kind: events.KindAccess, Text: text}) },
	})
	if err != nil {
		return nil, err
	}
	host, _, _ := net.SplitHostPort(d.cfg.Listen)
	f.Warn(configs.IsLoopback(host))
	return f, nil
}

// wayIn is the same for who watches figures.
func (d *Daemon) wayIn() metrics.WayIn {
	s := d.front.State()
	w := metrics.WayIn{Stale: map[string]bool{}, NotAfter: s.Expires}
	if d.cfg.APIKeysFile != "" {
		w.Stale["api_keys_file"] = s.KeysStale
	}
	if s.Certificate != "" {
		w.Stale["tls_cert"] = s.CertificateStale
	}
	return w
}

// url is where clients reach the API.
func (d *Daemon) url() string { return d.cfg.URL(d.cfg.Listen) }

// access tells who may come in, without keys or what would help to guess one.
func (d *Daemon) access() *control.Access {
	s := d.front.State()
	out := &control.Access{Keys: []control.Key{}}
	for _, use := range s.Keys {
		out.Keys = append(out.Keys, control.Key{Name: use.String(), Scope: use.Scope.String(), InFlight: use.InFlight, MaxInFlight: use.MaxInFlight})
	}
	if s.Certificate != "" {
		out.TLS = &control.TLS{Certificate: s.Certificate, Expires: s.Expires}
	}
	if s.Problem != nil {
		out.Problem = s.Problem.Error()
	}
	if len(out.Keys) == 0 && out.TLS == nil && out.Problem == "" {
		return nil
	}
	return out
}
