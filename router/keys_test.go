package router

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lm-warden/warden/router/keys"
)

// someKeys are keys without name or limit that may do everything.
func someKeys(all ...string) *keys.Guard {
	var known []keys.Key
	for _, k := range all {
		known = append(known, keys.Key{Hash: keys.HashOf(k), Scope: keys.Admin})
	}
	return keys.NewGuard(known...)
}

func TestScopesOfRoutes(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		guard := keys.NewGuard(
			keys.Key{Hash: keys.HashOf("infer"), Name: "agent", Scope: keys.Infer},
			keys.Key{Hash: keys.HashOf("read"), Name: "prometheus", Scope: keys.Read},
			keys.Key{Hash: keys.HashOf("admin"), Name: "ann", Scope: keys.Admin})
		f := newFixture(t, setup{engines: 1, options: Options{Keys: guard,
			Metrics: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}})
		for _, c := range []struct {
			method, path       string
			infer, read, admin int
		}{
			{"POST", "/v1/chat/completions", 200, 403, 200},
			{"POST", "/v1/messages", 200, 403, 200},
			{"POST", "/v1/embeddings", 200, 403, 200},
			{"POST", "/tokenize", 200, 403, 200},
			{"GET", "/v1/models", 200, 200, 200},
			{"GET", "/metrics", 403, 200, 200},
			{"GET", "/healthz", 200, 200, 200},
		} {
			for key, want := range map[string]int{"infer": c.infer, "read": c.read, "admin": c.admin} {
				r := f.do(f.request(t.Context(), c.method, c.path, chatBody("x"), "X-Api-Key", key))
				if r.status != want {
					t.Errorf("%s %s with %s: %d, want %d (%s)", c.method, c.path, key, r.status, want, r.body)
				}
				if want == 403 && !strings.Contains(r.body, "this needs") {
					t.Errorf("%s %s with %s: %s", c.method, c.path, key, r.body)
				}
			}
		}
		for _, rec := range f.finished() {
			if rec.Status == 200 && rec.KeyID != "agent" && rec.KeyID != "ann" {
				t.Errorf("recorded as %q", rec.KeyID)
			}
		}
		for _, use := range guard.Uses() {
			if use.InFlight != 0 {
				t.Errorf("%s has %d in flight at the end", use, use.InFlight)
			}
		}
	})
}

// A key's own limit counts what is served and what waits, whatever its end.
func TestKeyLimit(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		guard := keys.NewGuard(keys.Key{Hash: keys.HashOf("k"), Name: "ann", Scope: keys.Infer, MaxInFlight: 2},
			keys.Key{Hash: keys.HashOf("other"), Scope: keys.Infer})
		f := newFixture(t, setup{engines: 1, options: Options{Keys: guard}})
		f.engine("r0").set(func(w http.ResponseWriter, req *http.Request) {
			elapse(time.Minute)
			if req.Header.Get("X-Way") == "cut" {
				cut()
			}
			sayHello(w, req)
		})
		ended := make(chan reply, 2)
		for _, way := range []string{"served", "cut"} {
			go func() { ended <- f.post("/v1/chat/completions", chatBody(way), "X-Api-Key", "k", "X-Way", way) }()
		}
		soon()
		r := f.post("/v1/chat/completions", chatBody("third"), "X-Api-Key", "k")
		if r.status != 429 || r.header.Get("Retry-After") != "1" || !strings.Contains(r.body, "ann has 2 requests in flight") {
			t.Errorf("the third: %d %v %s", r.status, r.header, r.body)
		}
		if r := f.post("/v1/chat/completions", chatBody("x"), "X-Api-Key", "other"); r.status != 200 {
			t.Errorf("another key: %d", r.status)
		}
		<-ended
		<-ended
		soon()
		if use := guard.Uses()[0]; use.InFlight != 0 {
			t.Errorf("%d in flight after the end", use.InFlight)
		}
		if r := f.post("/v1/chat/completions", chatBody("x"), "X-Api-Key", "k"); r.status != 200 {
			t.Errorf("after the end: %d", r.status)
		}
	})
}

// When turns wait, those of a key that floods the queue wait longer.
func TestKeysShareTheQueue(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, setup{engines: 1, maxNumSeqs: 1, options: Options{Keys: someKeys("greedy", "modest")}})
		f.engine("r0").set(func(w http.ResponseWriter, req *http.Request) {
			elapse(time.Second)
			sayHello(w, req)
		})
		began := time.Now()
		took := make(chan time.Duration, 1)
		ended := make(chan struct{})
		for range 20 {
			go func() { f.post("/v1/chat/completions", chatBody("x"), "X-Api-Key", "greedy"); ended <- struct{}{} }()
		}
		soon()
		go func() {
			f.post("/v1/chat/completions", chatBody("x"), "X-Api-Key", "modest")
			took <- time.Since(began)
		}()
		if waited := <-took; waited > 3*time.Second {
			t.Errorf("the modest user was served after %s, behind the greedy one", waited)
		}
		for range 20 {
			<-ended
		}
	})
}
