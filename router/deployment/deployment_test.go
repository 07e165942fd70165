package deployment

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/lm-warden/warden/router/identity"
	"github.com/lm-warden/warden/router/identity/scan"
	"github.com/lm-warden/warden/router/link"
	"github.com/lm-warden/warden/router/metrics"
	"github.com/lm-warden/warden/router/placement"
	"github.com/lm-warden/warden/router/record"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is a deployment and what it told.
type fixture struct {
	*Deployment
	t        *testing.T
	events   []string
	failures []ReplicaID
}

func newFixture(t *testing.T, replicas ...Replica) *fixture {
	f := &fixture{t: t}
	m := Model{Alias: "m", Repo: "org/m"}
	f.Deployment = New(m, Options{
		Log: slog.New(slog.DiscardHandler), Metrics: metrics.New(), Dial: link.Dial, Buffers: new(link.Buffers),
		OnFailure: func(id ReplicaID, _ uint64, _ error) { f.failures = append(f.failures, id) },
		OnEvent: func(kind string, _ ReplicaID, _, _ string, _ map[string]string) {
			f.Model() // a listener may ask: the lock is free
			f.events = append(f.events, kind)
		},
	})
	f.Configure(m)
	f.SetReplicas(replicas)
	t.Cleanup(f.Shut)
	return f
}

func ready(ids ...ReplicaID) (all []Replica) {
	for _, id := range ids {
		all = append(all, Replica{ID: id, Generation: 1, Address: "unix:/none/" + string(id), Accepting: true, MaxNumSeqs: 8})
	}
	return all
}

// arrive brings one request of a session.
func (f *fixture) arrive(session string) *Turn {
	body := []byte(`{"model":"m","messages":[{"role":"user","content":"hello"}]}`)
	s := scan.NewMemo().Scan("/v1/chat/completions", body)
	who := identity.Identify(identity.Request{
		Method: "POST", Path: "/v1/chat/completions", Model: "m", Header: http.Header{"X-Session-Id": {session}},
	}, s)
	return f.Arrive(&Request{Who: &who, Scan: s, Body: body, Arrived: time.Now(), Drop: func() {}})
}

// place returns where the turn goes; none where it is refused.
func (f *fixture) place(t *Turn) (*Place, placement.Why) {
	f.t.Helper()
	p, reject, err := t.Wait(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	if reject != nil {
		return nil, reject.Why
	}
	return p, ""
}

func end(t *Turn) {
	rec := record.New("id", "/v1/chat/completions", t.Arrived)
	rec.Status, rec.Ended = http.StatusOK, time.Now()
	t.End(&rec)
	t.End(&rec) // does nothing
}

// A turn is counted on its replica from the choice to its end, and the next one of
// its session goes there.
func TestTurnIsCountedWhereItIsPlaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, ready("r0", "r1")...)
		var home ReplicaID
		for i := range 3 {
			turn := f.arrive("s")
			p, why := f.place(turn)
			if why != "" || i > 0 && p.Up.ID != home {
				t.Fatalf("turn %d: %v, home %s, %s", i, p, home, why)
			}
			home = p.Up.ID
			turn.FirstToken()
			if held, _, known := f.Work(home); held != 1 || !known {
				t.Errorf("%d held, known %v", held, known)
			}
			end(turn)
			if held, _, _ := f.Work(home); held != 0 {
				t.Errorf("%d held after the end", held)
			}
		}
		if s, _ := f.Snapshot(time.Now(), 9); s.Requests != 3 || s.SessionsSeen != 1 || len(s.Sessions) != 1 || s.Sessions[0].Home != home {
			t.Errorf("%+v", s)
		}
	})
}

// A replica that cannot be connected to gets no turns for a moment.
func TestUnreachableReplicaIsPaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, ready("r0", "r1")...)
		turn := f.arrive("s")
		first, _ := f.place(turn)
		_, err := first.Up.Link.Send(t.Context(), &link.Request{Method: "POST", Target: "/"})
		if !errors.Is(err, syscall.ENOENT) {
			t.Fatal(err)
		}
		turn.Failed(first.Up, err)
		turn.Retry()
		second, why := f.place(turn)
		if why != "" || second.Up == first.Up || second.Reason != placement.ReasonFailover {
			t.Fatalf("%+v, %s", second, why)
		}
		end(turn)
		if !slices.Equal(f.failures, []ReplicaID{first.Up.ID}) || !slices.Contains(f.events, "failover") {
			t.Errorf("failures %v, events %v", f.failures, f.events)
		}
		paused := func() (n int) {
			v, _ := f.Latest(time.Now())
			for _, r := range v.Replicas {
				if !r.Accepting {
					n++
				}
			}
			return n
		}
		if n := paused(); n != 1 {
			t.Errorf("%d replicas are paused", n)
		}
		time.Sleep(ConnectPause + 1) // in the bubble
		synctest.Wait()
		if n := paused(); n != 0 {
			t.Errorf("%d replicas are still paused", n)
		}
	})
}

// Nobody waits for what will not come.
func TestRefusedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		turn := f.arrive("s")
		if _, why := f.place(turn); why != WhyNoReplica {
			t.Errorf("without replicas: %q", why)
		}
		end(turn)
		f.SetReplicas([]Replica{{ID: "r0", Starting: true}})
		turn = f.arrive("s")
		left, cancel := context.WithCancel(t.Context())
		cancel()
		if _, reject, err := turn.Wait(left); reject != nil || !errors.Is(err, context.Canceled) {
			t.Errorf("while starting: %+v, %v", reject, err)
		}
		f.Shut()
		if _, why := f.place(turn); why != WhyClosed {
			t.Errorf("shut: %q", why)
		}
		end(turn)
		turn = f.arrive("s")
		if _, why := f.place(turn); why != WhyClosed {
			t.Errorf("after that: %q", why)
		}
		end(turn)
	})
}
