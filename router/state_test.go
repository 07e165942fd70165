package router

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/lm-warden/warden/router/mends"
)

func TestModelNames(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, setup{})
		models := []Model{
			{Alias: "qwen3-4b", Repo: "Qwen/Qwen3-4B-Instruct-2507", Aliases: []string{"qwen-small"}},
			{Alias: "gemma", Repo: "google/gemma-3-4b-it", OwnedBy: "SIMULATED"},
		}
		if err := f.router.SetModels(models); err != nil {
			t.Fatal(err)
		}
		for i, alias := range []string{"qwen3-4b", "gemma"} {
			e := f.startEngine(ReplicaID(fmt.Sprint("r", i)))
			if err := f.router.SetReplicas(alias, []Replica{{ID: e.id, Address: "mem:" + string(e.id), Accepting: true, MaxModelLen: 16384}}); err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range []struct {
			name, replica string
			status        int
			says          string
		}{
			{"qwen3-4b", "r0", 200, ""}, {"Qwen/Qwen3-4B-Instruct-2507", "r0", 200, ""}, {"qwen-small", "r0", 200, ""},
			{"gemma", "r1", 200, ""}, {"GEMMA", "r1", 200, ""},
			{"qwen3-4", "", 404, `unknown model \"qwen3-4\"; did you mean qwen3-4b?`},
			{"claude-haiku-4", "", 404, "known are qwen3-4b, gemma"},
			{"", "", 400, "names no model"},
		} {
			r := f.post("/v1/chat/completions", fmt.Sprintf(`{"model":%q}`, c.name))
			if r.status != c.status || r.header.Get("X-Warden-Replica") != c.replica || !strings.Contains(r.body, c.says) {
				t.Errorf("%q: %d on %q: %s", c.name, r.status, r.header.Get("X-Warden-Replica"), r.body)
			}
		}
		if got := f.engine("r1").requests(); got[0].body != `{"model":"gemma"}` || got[1].body != `{"model":"gemma"}` {
			t.Errorf("the engine of gemma got %v", got)
		}
		list := decodeJSON(t, f.do(f.request(t.Context(), "GET", "/v1/models?limit=1000", "")).body)
		var ids []string
		for _, m := range list["data"].([]any) {
			m := m.(map[string]any)
			ids = append(ids, m["id"].(string)+"/"+m["owned_by"].(string))
			if m["object"] != "model" || m["type"] != "model" || m["max_model_len"] != float64(16384) || m["display_name"] == "" {
				t.Errorf("entry %v", m)
			}
		}
		want := "qwen3-4b/vllm Qwen/Qwen3-4B-Instruct-2507/vllm qwen-small/vllm gemma/SIMULATED google/gemma-3-4b-it/SIMULATED"
		if got := strings.Join(ids, " "); got != want || list["first_id"] != "qwen3-4b" || list["last_id"] != "google/gemma-3-4b-it" {
			t.Errorf("models: %s (%v .. %v)", got, list["first_id"], list["last_id"])
		}

		for _, c := range []struct {
			path   string
			status int
			says   string
		}{
			{"gemma", 200, `"id":"gemma"`},
			{"Qwen/Qwen3-4B-Instruct-2507", 200, `"id":"Qwen/Qwen3-4B-Instruct-2507"`},
			{"Qwen%2FQwen3-4B-Instruct-2507", 200, `"max_model_len":16384`},
			{"GEMMA", 200, `"id":"gemma"`},
			{"qwen3-4", 404, "did you mean qwen3-4b?"},
			{"%2e%2e/models", 404, "unknown model"},
		} {
			r := f.do(f.request(t.Context(), "GET", "/v1/models/"+c.path, ""))
			if r.status != c.status || !strings.Contains(r.body, c.says) {
				t.Errorf("model %s: %d %s, want %d and %s", c.path, r.status, r.body, c.status, c.says)
			}
		}
		if r := f.do(f.request(t.Context(), "POST", "/v1/models/gemma", "{}")); r.status != http.StatusMethodNotAllowed {
			t.Errorf("POST to a model: %d", r.status)
		}

		// One that goes refuses what comes; one that stays keeps its replicas.
		if err := f.router.SetModels(models[:1]); err != nil {
			t.Fatal(err)
		}
		if r := f.post("/v1/chat/completions", `{"model":"gemma"}`); r.header.Get("X-Warden-Replica") != "r0" {
			t.Errorf("the only model left did not serve: %d %s", r.status, r.body)
		}
		models[0].Aliases = []string{"gemma", "gemma"}
		models[1].Repo = "x"
		if err := f.router.SetModels(models); err == nil || !strings.Contains(err.Error(), `"gemma"`) {
			t.Errorf("two models with one name: %v", err)
		}
	})
}

func TestOnlyModelServesAnyName(t *testing.T) {
	for _, strict := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			f := newFixture(t, setup{engines: 1, options: Options{StrictModels: strict}})
			r := f.post("/v1/messages", `{"x":1.0, "model" : "claude-haiku-4-5","max_tokens":1}`)
			if strict {
				if r.status != 404 {
					t.Errorf("strict: %d", r.status)
				}
				return
			}
			if got := f.engine("r0").requests()[0].body; r.status != 200 || got != `{"x":1.0, "model" : "qwen3-4b","max_tokens":1}` {
				t.Errorf("%d, the engine got %s", r.status, got)
			}
		})
	}
}

func TestSystemTurnsAreFoldedOnRequest(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, setup{engines: 1, model: Model{Alias: "m", SystemTurns: mends.SystemTurnsFold}})
		f.post("/v1/messages", `{"model":"claude-x","messages":[{"role":"user","content":"a"},{"role":"system","content":"b"}]}`)
		got := f.engine("r0").requests()[0].body
		if want := `{"model":"m","messages":[{"role":"user","content":"a"},{"role":"user","content":"<system-reminder>\nb\n</system-reminder>"}]}`; got != want {
			t.Errorf("the engine got %s", got)
		}
	})
}

func TestSnapshotFigures(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, setup{engines: 2})
		f.every(func(*engine) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				elapse(300 * time.Millisecond)
				s := stream(w)
				s.send(chunk("a"))
				elapse(700 * time.Millisecond)
				s.finish()
			}
		})
		seen := make(chan string, 1)
		f.router.opts.OnFinish = func(r Record) { seen <- r.Session }
		for range 5 {
			done := make(chan reply)
			go func() {
				done <- f.do(f.request(t.Context(), "POST", "/v1/chat/completions", streamBody("x"), "X-Session-Id", "s", "User-Agent", "OpenAI/JS 6.49.0"))
			}()
			elapse(100 * time.Millisecond)
			state := func() string { return f.router.Snapshot(5).Models[0].Sessions[0].State }
			if got := state(); got != "prefill" {
				t.Errorf("before the first token: %s", got)
			}
			elapse(400 * time.Millisecond)
			if got := state(); got != "decode" {
				t.Errorf("after the first token: %s", got)
			}
			<-done
			<-seen
			if got := state(); got != "idle" {
				t.Errorf("after the end: %s", got)
			}
		}
		m := f.router.Snapshot(5).Models[0]
		s := m.Sessions[0]
		if len(s.ID) != 4 || !strings.HasPrefix(s.Key, s.ID) || s.Turns != 5 || s.Tokens != 105 || s.CachedShare != 0.8 || s.Reason != "sticky" || s.Home == "" || s.Client != "openai-sdk" {
			t.Errorf("session: %+v", s)
		}
		if m.TTFT.Count != 5 || math.Abs(m.TTFT.P50.Seconds()-0.3) > 0.02 || m.TTFT.P95 < m.TTFT.P50 {
			t.Errorf("TTFT: %+v", m.TTFT)
		}
		var home ReplicaSnapshot
		for _, r := range m.Replicas {
			if r.ID == s.Home {
				home = r
			}
		}
		if home.Sticky != 1 || home.Requests != 5 || home.Tokens.CachedTotal != 400 || home.Tokens.ComputedTotal != 100 ||
			home.Tokens.CachedShareHour != 0.8 || home.CapacityTokens != 40_000 || home.SpillLimit != 8 {
			t.Errorf("replica: %+v", home)
		}
		// 400 cached tokens in the 5 s since the start.
		if home.Tokens.CachedRate != 80 || home.RequestsPerSecond != 1 {
			t.Errorf("rates: %+v, %v/s", home.Tokens, home.RequestsPerSecond)
		}
		if _, last := f.router.Work(home.ID); time.Since(last) > time.Second {
			t.Errorf("last byte %v ago", time.Since(last))
		}
		elapse(61 * time.Minute)
		if m := f.router.Snapshot(5).Models[0]; m.TTFT.Count != 0 || m.Replicas[0].Tokens.CachedShareHour != -1 || m.Requests != 5 {
			t.Errorf("an hour later: %+v", m)
		}
	})
}

// Comments that keep a connection open are no sign of life.
func TestKeepAliveIsNoProgress(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, setup{engines: 1})
		step := make(chan string)
		f.engine("r0").set(func(w http.ResponseWriter, _ *http.Request) {
			s := stream(w)
			for e := range step {
				s.send(e)
			}
		})
		done := make(chan reply)
		go func() { done <- f.post("/v1/chat/completions", streamBody("x")) }()
		step <- ": ping\n\n"
		soon()
		if _, last := f.router.Work("r0"); !last.IsZero() {
			t.Error("a comment counted as progress")
		}
		step <- chunk("a")
		soon()
		if _, last := f.router.Work("r0"); time.Since(last) != 0 {
			t.Error("data did not count as progress")
		}
		step <- doneEvent
		close(step)
		if r := <-done; r.body != ": ping\n\n"+chunk("a")+doneEvent || r.err != nil {
			t.Errorf("%q %v", r.body, r.err)
		}
	})
}

func TestMetrics(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, setup{engines: 2})
		f.chat("s")
		f.chat("s")
		f.post("/v1/chat/completions", streamBody("x"))
		f.engine("r0").kill()
		f.engine("r1").kill()
		f.post("/v1/chat/completions", chatBody("x"))
		soon()
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(f.router)
		problems, err := testutil.GatherAndLint(registry)
		if err != nil || len(problems) != 0 {
			t.Errorf("lint: %v %v", problems, err)
		}
		for name, want := range map[string]int{
			"warden_requests_in_flight": 2, "warden_sessions": 4, "warden_kv_capacity_tokens": 2, "warden_session_tokens": 2,
			"warden_requests_waiting": 1, "warden_homes_lost_total": 1, "warden_placement_duration_seconds": 1,
		} {
			if n, err := testutil.GatherAndCount(registry, name); err != nil || n != want {
				t.Errorf("%s: %d series, want %d (%v)", name, n, want, err)
			}
		}
		expect := `
			# HELP warden_prefix_tokens_total Prompt tokens as the engines measured them: hit was cached, miss was computed.
			# TYPE warden_prefix_tokens_total counter
			warden_prefix_tokens_total{model="qwen3-4b",reason="new",result="hit"} 160
			warden_prefix_tokens_total{model="qwen3-4b",reason="new",result="miss"} 40
			warden_prefix_tokens_total{model="qwen3-4b",reason="sticky",result="hit"} 80
			warden_prefix_tokens_total{model="qwen3-4b",reason="sticky",result="miss"} 20
		`
		if err := testutil.GatherAndCompare(registry, strings.NewReader(expect), "warden_prefix_tokens_total"); err != nil {
			t.Error(err)
		}
	})
}

func TestDrainLetsRequestsFinish(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, setup{engines: 1})
		f.engine("r0").set(func(w http.ResponseWriter, req *http.Request) { elapse(10 * time.Second); sayHello(w, req) })
		done := make(chan reply)
		go func() { done <- f.post("/v1/chat/completions", chatBody("x")) }()
		soon()
		drained := make(chan error)
		go func() { drained <- f.router.Drain(t.Context()) }()
		soon()
		if r := f.post("/v1/chat/completions", chatBody("x")); r.status != 503 || r.header.Get("Retry-After") != "5" {
			t.Errorf("while draining: %d %v", r.status, r.header)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := f.router.Drain(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a short drain: %v", err)
		}
		if r := <-done; r.status != 200 {
			t.Errorf("the request in flight: %d", r.status)
		}
		if err := <-drained; err != nil {
			t.Errorf("drain: %v", err)
		}
	})
}

func TestCloseCutsWhatIsOpen(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, setup{engines: 1})
		f.engine("r0").set(func(w http.ResponseWriter, req *http.Request) {
			stream(w).send(chunk("a"))
			<-req.Context().Done()
		})
		begun, waiting := make(chan reply), make(chan reply)
		go func() { begun <- f.post("/v1/chat/completions", streamBody("x")) }()
		soon()
		f.engine("r0").set(func(_ http.ResponseWriter, req *http.Request) { <-req.Context().Done() })
		go func() { waiting <- f.post("/v1/chat/completions", chatBody("x")) }()
		soon()
		f.router.Close()
		if r := <-begun; !errors.Is(r.err, io.ErrUnexpectedEOF) || strings.Contains(r.body, "[DONE]") {
			t.Errorf("an answer that had begun: %q %v", r.body, r.err)
		}
		if r := <-waiting; r.status != 503 {
			t.Errorf("one that had not: %d %v", r.status, r.err)
		}
		f.router.Close() // once more is harmless
	})
}

// Neither a client that sends nothing nor one that reads nothing holds up the
// end of the Router.
func TestCloseDoesNotWaitForIdleClients(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, setup{engines: 1})
		f.engine("r0").set(func(w http.ResponseWriter, req *http.Request) {
			s := stream(w)
			for req.Context().Err() == nil {
				s.send(chunk(strings.Repeat("x", 4000)))
			}
		})
		body := streamBody("x")
		for _, sent := range []string{body, body[:10]} {
			conn, err := f.net.dial(t.Context(), "warden")
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), sent); err != nil {
				t.Fatal(err)
			}
		}
		soon()
		if held, _ := f.router.Work("r0"); held != 1 {
			t.Fatalf("%d held", held)
		}
		began := time.Now()
		f.router.Close()
		if took := time.Since(began); took > time.Second {
			t.Errorf("closing took %v", took)
		}
	})
}

func TestFailuresAndEventsMayCallBack(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, setup{engines: 2})
		var once sync.Once
		f.router.opts.OnEvent = func(string, ReplicaID, string, string, map[string]string) {
			once.Do(func() { f.router.Snapshot(1) }) // would deadlock under the lock
		}
		f.router.opts.OnFailure = func(id ReplicaID, _ uint64, _ error) { f.router.Work(id) }
		f.engine("r0").kill()
		f.chat("s")
		if _, _, err := f.router.SetAffinity("", false); err != nil {
			t.Fatal(err)
		}
	})
}

// The real network: unix sockets and TCP, many requests at once.
func TestRealSockets(t *testing.T) {
	r := New(Options{})
	if err := r.SetModels([]Model{{Alias: testModel}}); err != nil {
		t.Fatal(err)
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if _, err := io.ReadAll(req.Body); err != nil {
			return
		}
		s := stream(w)
		s.send(chunk("a"), chunk("b"))
		s.finish()
	})
	path := filepath.Join(t.TempDir(), "r0.sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	local := &http.Server{Handler: handler}
	served := make(chan struct{})
	go func() { defer close(served); _ = local.Serve(listener) }()
	tcp := httptest.NewServer(handler)
	if err := r.SetReplicas(testModel, []Replica{
		{ID: "r0", Address: "unix:" + path, Accepting: true, MaxNumSeqs: 256},
		{ID: "r1", Address: tcp.URL, Accepting: true, MaxNumSeqs: 256},
	}); err != nil {
		t.Fatal(err)
	}
	front := httptest.NewUnstartedServer(nil)
	front.Config = NewServer(r)
	front.Start()
	want := chunk("a") + chunk("b") + finishChunk + usageChunk + doneEvent
	var wait sync.WaitGroup
	byReplica := make([]int, 2)
	var mu sync.Mutex
	for range 64 {
		wait.Go(func() {
			for range 5 {
				resp, err := front.Client().Post(front.URL+"/v1/chat/completions", "application/json", strings.NewReader(streamBody("x")))
				if err != nil {
					t.Error(err)
					return
				}
				body, err := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				if err != nil || string(body) != want {
					t.Errorf("%q %v", body, err)
				}
				mu.Lock()
				byReplica[resp.Header.Get("X-Warden-Replica")[1]-'0']++
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	front.Close()
	r.Close()
	_ = local.Close()
	tcp.Close()
	<-served
	if byReplica[0] == 0 || byReplica[1] == 0 {
		t.Errorf("320 requests spread as %v", byReplica)
	}
}

func TestReplicasAreCheckedWhenSet(t *testing.T) {
	r := New(Options{})
	t.Cleanup(r.Close)
	if err := r.SetModels([]Model{{Alias: "m"}}); err != nil {
		t.Fatal(err)
	}
	if err := r.SetReplicas("x", nil); err == nil || !strings.Contains(err.Error(), `"x"`) {
		t.Errorf("unknown model: %v", err)
	}
	if err := r.SetReplicas("m", []Replica{{ID: "r0"}, {ID: "r0", Generation: 1}}); err == nil || !strings.Contains(err.Error(), `"r0"`) {
		t.Errorf("an id given twice: %v", err)
	}
}
