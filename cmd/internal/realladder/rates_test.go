package realladder

import (
	"context"
	"errors"
	"math"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/lm-warden/warden/supervisor/simengine/core"
	"github.com/lm-warden/warden/supervisor/simengine/prompt"
	"github.com/lm-warden/warden/supervisor/simengine/server"
)

// pipes is a listener in memory, so that HTTP runs in virtual time.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (l *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipes) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "unix"} }

func (l *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case l.conns <- theirs:
		return ours, nil
	case <-l.done:
		return nil, errors.New("refused")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// What is measured of a simulated engine is what it was told to cost.
func TestMeasuredRatesAreTheEngines(t *testing.T) {
	profile, err := core.FindProfile(simulatedProfile)
	if err != nil {
		t.Fatal(err)
	}
	want := profile.Cost
	want.PrefillContext, want.DecodeContext = 20, 300 // the profile leaves them out
	want.Admission, want.Frontend, want.CachedToken = want.Frontend, 0, 5000
	synctest.Test(t, func(t *testing.T) {
		s, err := server.New(server.Options{
			Model: model, Tokenizer: prompt.Bytes,
			Engine: core.Config{BlockSize: profile.BlockSize, Blocks: profile.Blocks, MaxModelLen: 8192, MaxNumSeqs: maxNumSeqs, MaxBatchedTokens: 8192, Cost: want},
		})
		if err != nil {
			t.Fatal(err)
		}
		l := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
		web := &http.Server{Handler: s, ConnContext: server.ConnContext}
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _ = s.Run(ctx) })
		wg.Go(func() { _ = web.Serve(l) })
		transport := &http.Transport{DialContext: l.dial}
		defer func() {
			stop()
			_ = web.Close()
			transport.CloseIdleConnections()
			wg.Wait()
		}()
		rates, err := measureRates(t.Context(), &http.Client{Transport: transport}, []string{"http://engine"})
		if err != nil {
			t.Fatal(err)
		}
		got, err := rates.cost()
		if err != nil {
			t.Fatal(err)
		}
		for name, pair := range map[string][2]float64{
			"per token":       {got.PerToken, want.PerToken},
			"prefill context": {got.PrefillContext, want.PrefillContext},
			"decode context":  {got.DecodeContext, want.DecodeContext},
			"step":            {float64(got.Base + got.Floor), float64(want.Base + want.Floor)},
			"admission":       {float64(got.Admission), float64(want.Admission)},
			"cached token":    {got.CachedToken, want.CachedToken},
		} {
			if math.Abs(pair[0]/pair[1]-1) > 0.05 {
				t.Errorf("%s: measured %v, is %v", name, pair[0], pair[1])
			}
		}
		if rates.Error > 0.05 {
			t.Errorf("the fit is off by %v", rates.Error)
		}
	})
}
