package router

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lm-warden/warden/router/deployment"
	"github.com/lm-warden/warden/router/placement"
)

func TestConversationsStay(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, setup{engines: 4})
		homes := map[string]string{}
		for turn := range 25 {
			for s := range 40 {
				session := fmt.Sprintf("s%d", s)
				replica, reason := f.chat(session)
				switch {
				case turn == 0 && reason != "new" && reason != "root":
					t.Fatalf("first turn of %s: %s", session, reason)
				case turn > 0 && (reason != "sticky" || replica != homes[session]):
					t.Fatalf("turn %d of %s: %s on %s, home %s", turn, session, reason, replica, homes[session])
				}
				homes[session] = replica
			}
		}
		load := map[string]int{}
		for _, r := range homes {
			load[r]++
		}
		for _, e := range f.engines {
			if n := load[string(e.id)]; n < 9 || n > 11 {
				t.Errorf("%d of 40 conversations live on %s", n, e.id)
			}
		}
		m := f.router.Snapshot(3).Models[0]
		if m.SessionsLive != 40 || m.SessionsSeen != 40 || m.Requests != 1000 || m.Errors != 0 || len(m.Sessions) != 3 {
			t.Errorf("snapshot: %d live, %d seen, %d requests, %d errors, %d listed",
				m.SessionsLive, m.SessionsSeen, m.Requests, m.Errors, len(m.Sessions))
		}
	})
}

// Turns placed at the same moment must not all see the same least loaded
// replica.
func TestBurstSpreads(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, setup{engines: 4})
		release := make(chan struct{})
		f.every(func(*engine) http.HandlerFunc {
			return func(w http.ResponseWriter, req *http.Request) { <-release; sayHello(w, req) }
		})
		done := make(chan reply)
		for i := range 64 {
			go func() {
				done <- f.do(f.request(t.Context(), "POST", "/v1/chat/completions", chatBody("x"), "X-Session-Id", fmt.Sprint("s", i)))
			}()
		}
		soon()
		for _, e := range f.engines {
			if held, _ := f.router.Work(e.id); held != 16 {
				t.Errorf("%s holds %d of 64", e.id, held)
			}
		}
		close(release)
		for range 64 {
			if r := <-done; r.status != 200 {
				t.Errorf("%d %v", r.status, r.err)
			}
		}
	})
}

func TestAffinityAndSpillAreLive(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, setup{engines: 2})
		f.chat("s")
		if _, reason := f.chat("s"); reason != "sticky" {
			t.Fatalf("second turn: %s", reason)
		}
		before, after, err := f.router.SetAffinity(testModel, false)
		if err != nil || before != placement.PolicyAffinity || after != placement.PolicyBalance {
			t.Errorf("off: %s to %s, %v", before, after, err)
		}
		if _, reason := f.chat("s"); reason != "balance" {
			t.Errorf("with affinity off: %s", reason)
		}
		if before, after, err = f.router.SetAffinity("", true); err != nil || before != placement.PolicyBalance || after != placement.PolicyAffinity {
			t.Errorf("on: %s to %s, %v", before, after, err)
		}
		if _, reason := f.chat("s"); reason != "sticky" {
			t.Errorf("with affinity on again: %s", reason)
		}

		home, _ := f.chat("s")
		if before, err := f.router.SetSpillLimit("Qwen/Qwen3-4B-Instruct-2507", 1); err != nil || before != 0 {
			t.Errorf("spill limit before: %d, %v", before, err)
		}
		release := make(chan struct{})
		f.engine(home).set(func(w http.ResponseWriter, req *http.Request) { <-release; sayHello(w, req) })
		done := make(chan reply)
		go func() {
			done <- f.do(f.request(t.Context(), "POST", "/v1/chat/completions", chatBody("x"), "X-Session-Id", "s"))
		}()
		soon()
		if replica, reason := f.chat("s"); replica == home || reason != "spill" {
			t.Errorf("at the limit: %s on %s", reason, replica)
		}
		close(release)
		<-done
		if replica, reason := f.chat("s"); replica != home || reason != "sticky" {
			t.Errorf("after the spill: %s on %s, home %s", reason, replica, home)
		}
		events := strings.Join(f.noted(&f.events), "\n")
		for _, want := range []string{"affinity turned off", "affinity turned on", "spill limit set to 1",
			"spilled " + home, "(" + home + " holds 1, spill limit 1)"} {
			if !strings.Contains(events, want) {
				t.Errorf("no event %q in\n%s", want, events)
			}
		}
		if _, _, err := f.router.SetAffinity("qwen3-4x", true); err == nil || !strings.Contains(err.Error(), "did you mean qwen3-4b?") {
			t.Errorf("unknown model: %v", err)
		}
		if _, err := f.router.SetSpillLimit(testModel, -1); err == nil {
			t.Error("a negative limit was accepted")
		}
	})
}

// An admission policy that was configured is what "on" returns to.
func TestAffinityOnMeansTheConfiguredPolicy(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, setup{engines: 1, model: Model{Alias: "m", Placement: placement.Config{Policy: placement.PolicyAdmission}}})
		for _, step := range []struct {
			on   bool
			want string
		}{{false, placement.PolicyBalance}, {true, placement.PolicyAdmission}} {
			if _, after, err := f.router.SetAffinity("m", step.on); err != nil || after != step.want {
				t.Errorf("on=%v: %s %v", step.on, after, err)
			}
		}
	})
}

// Each policy is one order away, and "on" returns to the latest one that keeps
// conversations.
func TestPolicyIsLive(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, setup{engines: 1})
		f.chat("s")
		before, err := f.router.SetPolicy(testModel, placement.PolicyAdmission)
		if err != nil || before != placement.PolicyAffinity {
			t.Errorf("before admission: %q, %v", before, err)
		}
		if _, reason := f.chat("s"); reason != "sticky" {
			t.Errorf("a known conversation under admission: %s", reason)
		}
		if got := f.router.Snapshot(0).Models[0]; got.Policy != placement.PolicyAdmission || !got.Affinity {
			t.Errorf("shown as %q, affinity %v", got.Policy, got.Affinity)
		}
		if before, err = f.router.SetPolicy("", placement.PolicyBalance); err != nil || before != placement.PolicyAdmission {
			t.Errorf("before balance: %q, %v", before, err)
		}
		if _, after, err := f.router.SetAffinity("", true); err != nil || after != placement.PolicyAdmission {
			t.Errorf("on again: %q, %v", after, err)
		}
		if _, err := f.router.SetPolicy("", "best"); err == nil || !strings.Contains(err.Error(), "balance, affinity, admission") {
			t.Errorf("an unknown policy: %v", err)
		}
		if events := strings.Join(f.noted(&f.events), "\n"); !strings.Contains(events, "placement policy is admission") {
			t.Errorf("nobody was told: %s", events)
		}
	})
}

func TestHeldWhileReplicasStart(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, setup{engines: 1})
		starting := []Replica{{ID: "r0", Generation: 2, Address: "mem:r0", Starting: true}}
		if err := f.router.SetReplicas(testModel, starting); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		done := make(chan reply)
		go func() { done <- f.post("/v1/chat/completions", chatBody("x")) }()
		elapse(200 * time.Second)
		soon()
		if n := len(f.engine("r0").requests()); n != 0 {
			t.Fatal("a starting replica was asked")
		}
		starting[0].Accepting, starting[0].Starting = true, false
		if err := f.router.SetReplicas(testModel, starting); err != nil {
			t.Fatal(err)
		}
		if r := <-done; r.body != helloBody || time.Since(began) != 200*time.Second {
			t.Errorf("after %v: %d %s", time.Since(began), r.status, r.body)
		}
	})
}

func TestWaitingEndsInAnAnswerThatClientsUnderstand(t *testing.T) {
	for _, c := range []struct {
		name     string
		replicas []Replica
		after    time.Duration
		status   int
	}{
		{"starting for too long", []Replica{{ID: "r0", Starting: true}}, 240 * time.Second, 429},
		{"nothing known yet", nil, 240 * time.Second, 429},
		{"nothing is coming", []Replica{{ID: "r0"}}, 0, 503},
		{"no replicas", []Replica{}, 0, 503},
	} {
		for _, path := range []string{"/v1/chat/completions", "/v1/messages"} {
			t.Run(c.name+path, func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					f := newFixture(t, setup{})
					if c.replicas != nil {
						if err := f.router.SetReplicas(testModel, c.replicas); err != nil {
							t.Fatal(err)
						}
					}
					began := time.Now()
					r := f.post(path, chatBody("x"))
					if r.status != c.status || time.Since(began) != c.after {
						t.Errorf("after %v: %d %s", time.Since(began), r.status, r.body)
					}
					var seconds int
					if _, err := fmt.Sscanf(r.header.Get("Retry-After"), "%d", &seconds); err != nil || seconds < 1 || seconds > 60 {
						t.Errorf("Retry-After %q", r.header.Get("Retry-After"))
					}
				})
			})
		}
	}
}

// A turn that waits is refused the moment the last hope goes.
func TestWaitingTurnsLearnThatNothingIsComing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, setup{})
		done := make(chan reply)
		go func() { done <- f.post("/v1/chat/completions", chatBody("x")) }()
		elapse(time.Minute)
		if err := f.router.SetReplicas(testModel, []Replica{{ID: "r0"}}); err != nil {
			t.Fatal(err)
		}
		if r := <-done; r.status != 503 || !strings.Contains(r.body, "none is starting") {
			t.Errorf("%d %s", r.status, r.body)
		}
	})
}

// A replica that refuses connections is left alone for a moment, and the turn
// waits for it when it is the only one.
func TestOnlyReplicaRestartsInAWink(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, setup{engines: 1})
		f.engine("r0").kill()
		done := make(chan reply)
		go func() { done <- f.post("/v1/chat/completions", chatBody("x")) }()
		soon()
		if got := f.noted(&f.failures); len(got) != 1 {
			t.Fatalf("failures: %v", got)
		}
		f.engines = nil
		f.startEngine("r0") // same address, as a supervisor would
		if err := f.router.SetReplicas(testModel, []Replica{{ID: "r0", Generation: 2, Address: "mem:r0", Accepting: true}}); err != nil {
			t.Fatal(err)
		}
		if r := <-done; r.body != helloBody {
			t.Errorf("%d %q %v", r.status, r.body, r.err)
		}
	})
}

func TestRequestThatKillsEnginesDoesNotKillThemAll(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, setup{engines: 8})
		f.every(func(*engine) http.HandlerFunc {
			return func(http.ResponseWriter, *http.Request) { cut() }
		})
		r := f.post("/v1/chat/completions", chatBody("x"))
		if r.status != 503 {
			t.Errorf("%d %s", r.status, r.body)
		}
		asked := 0
		for _, e := range f.engines {
			asked += len(e.requests())
		}
		if asked != 3 {
			t.Errorf("%d engines were asked, want 3", asked)
		}
	})
}

// 64 streams over 4 replicas, one of which dies: what waits for its first byte
// finishes elsewhere, what had begun there breaks, the rest notices nothing.
func TestReplicaDiesUnder64Streams(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, setup{engines: 4, maxNumSeqs: 64})
		release := make(chan struct{})
		f.every(func(e *engine) http.HandlerFunc {
			return func(w http.ResponseWriter, req *http.Request) {
				s := stream(w)
				if strings.Contains(req.Header.Get("X-Kind"), "begun") {
					s.send(chunk("first"))
				}
				select {
				case <-release:
				case <-req.Context().Done():
					return
				}
				s.send(chunk("last from " + string(e.id)))
				s.finish()
			}
		})
		type result struct {
			kind string
			reply
		}
		done := make(chan result)
		for i := range 64 {
			kind := []string{"begun", "waiting"}[i/4%2]
			go func() {
				r := f.do(f.request(t.Context(), "POST", "/v1/chat/completions", streamBody("x"), "X-Session-Id", fmt.Sprint("s", i), "X-Kind", kind))
				done <- result{kind, r}
			}()
		}
		soon()
		victim := f.engine("r2")
		held, _ := f.router.Work("r2")
		if held != 16 {
			t.Fatalf("r2 holds %d of 64", held)
		}
		begun := 0
		for _, got := range victim.requests() {
			if got.header.Get("X-Kind") == "begun" {
				begun++
			}
		}
		victim.kill()
		soon()
		close(release)
		broken, complete := 0, 0
		for range 64 {
			r := <-done
			switch {
			case r.err == nil && r.status == 200 && strings.HasSuffix(r.body, doneEvent):
				complete++
			case r.kind == "begun" && r.header.Get("X-Warden-Replica") == "r2" && !strings.Contains(r.body, "[DONE]"):
				broken++
			default:
				t.Errorf("%s on %s: %d %q %v", r.kind, r.header.Get("X-Warden-Replica"), r.status, r.body, r.err)
			}
		}
		if broken != begun || complete != 64-begun || begun == 0 || begun == held {
			t.Errorf("%d broke of %d that had begun on r2; %d complete", broken, begun, complete)
		}
	})
}

// Homes on a process that has ended are lost; the others are not touched.
func TestRestartMovesOnlyItsOwnConversations(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, setup{engines: 4})
		homes := map[string]string{}
		for i := range 16 {
			s := fmt.Sprint("s", i)
			homes[s], _ = f.chat(s)
		}
		var set []Replica
		for _, e := range f.engines {
			set = append(set, Replica{ID: e.id, Generation: 1, Address: "mem:" + string(e.id), Accepting: e.id != "r1", Starting: true, MaxNumSeqs: 32})
		}
		set[1].Generation = 2
		if err := f.router.SetReplicas(testModel, set); err != nil {
			t.Fatal(err)
		}
		for s, home := range homes {
			replica, reason := f.chat(s)
			if home == "r1" && (replica == "r1" || reason != "failover") || home != "r1" && (replica != home || reason != "sticky") {
				t.Errorf("%s, home %s: %s on %s", s, home, reason, replica)
			}
		}
		if m := f.router.Snapshot(0).Models[0]; m.HomesLost != 4 {
			t.Errorf("%d homes lost, want 4", m.HomesLost)
		}
	})
}

func TestStoredResponsesArePinned(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, setup{engines: 3})
		f.every(func(e *engine) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				_, _ = fmt.Fprintf(w, `{"id":"resp_%s","status":"completed","output":[],"usage":{"input_tokens":10,"output_tokens":2}}`, e.id)
			}
		})
		ask := func(previous string) reply {
			return f.post("/v1/responses", `{"model":"`+testModel+`","input":"x","previous_response_id":"`+previous+`"}`)
		}
		first := f.post("/v1/responses", `{"model":"`+testModel+`","input":"x"}`)
		home := first.header.Get("X-Warden-Replica")
		for range 4 {
			if r := ask("resp_" + home); r.header.Get("X-Warden-Replica") != home || r.header.Get("X-Warden-Reason") != "pinned" {
				t.Errorf("pinned to %s: %d %v", home, r.status, r.header)
			}
		}
		if r := ask("resp_unknown"); r.status != 404 {
			t.Errorf("unknown response: %d", r.status)
		}
		var set []Replica
		for _, e := range f.engines {
			set = append(set, Replica{ID: e.id, Generation: 2, Address: "mem:" + string(e.id), Accepting: true})
		}
		if err := f.router.SetReplicas(testModel, set); err != nil {
			t.Fatal(err)
		}
		if r := ask("resp_" + home); r.status != 404 || !strings.Contains(r.body, "restarted") {
			t.Errorf("after a restart: %d %s", r.status, r.body)
		}
	})
}

// A client without any id is recognised by what it sends.
func TestHistoryWithoutIDStays(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, setup{engines: 4})
		history := `{"role":"user","content":"tell me about engines"}`
		var home string
		for turn := range 5 {
			r := f.post("/v1/chat/completions", `{"model":"`+testModel+`","messages":[`+history+`]}`)
			replica, reason := r.header.Get("X-Warden-Replica"), r.header.Get("X-Warden-Reason")
			if turn > 0 && (replica != home || reason != "sticky") {
				t.Errorf("turn %d: %s on %s, home %s", turn, reason, replica, home)
			}
			home = replica
			history += fmt.Sprintf(`,{"role":"assistant","content":"hello"},{"role":"user","content":"go on %d"}`, turn)
		}
	})
}

func TestUsageIsMeasuredWithoutATrace(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, setup{engines: 1})
		f.engine("r0").set(func(w http.ResponseWriter, req *http.Request) {
			got := f.engine("r0").requests()
			s := stream(w)
			s.send(chunk("a"), finishChunk)
			if strings.Contains(got[len(got)-1].body, `"include_usage":true`) {
				s.send(usageChunk)
			}
			s.send(doneEvent)
		})
		plain := strings.Replace(chatBody("x"), "{", `{"stream":true,`, 1)
		r := f.post("/v1/chat/completions", plain)
		if want := chunk("a") + finishChunk + doneEvent; r.body != want || r.err != nil {
			t.Errorf("the client got %q, want %q", r.body, want)
		}
		if sent := f.engine("r0").requests()[0].body; !strings.Contains(sent, `"stream_options":{"include_usage":true}`) ||
			strings.Replace(sent, `"stream_options":{"include_usage":true},`, "", 1) != plain {
			t.Errorf("the engine got %s", sent)
		}
		asked := f.post("/v1/chat/completions", streamBody("x"))
		if !strings.Contains(asked.body, usageChunk) {
			t.Error("the usage chunk that the client asked for was taken out")
		}
		continuous := strings.Replace(chatBody("x"), "{", `{"stream":true,"stream_options":{"continuous_usage_stats":true},`, 1)
		f.post("/v1/chat/completions", continuous)
		if sent := f.engine("r0").requests()[2].body; sent != continuous {
			t.Errorf("continuous_usage_stats: the engine got %s", sent)
		}
		soon()
		rec := f.finished()
		for i, want := range []int{80, 80, -1} {
			if rec[i].Usage.CachedTokens != want {
				t.Errorf("request %d: %+v", i, rec[i].Usage)
			}
		}
		tokens := f.router.Snapshot(0).Models[0].Replicas[0].Tokens
		if tokens.CachedTotal != 160 || tokens.ComputedTotal < 40 || tokens.OutputTotal != 10 {
			t.Errorf("tokens: %+v", tokens)
		}
	})
}

func TestExactStreamsAreLeftAlone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, setup{engines: 1, model: Model{Alias: testModel, ExactStreams: true, ExactErrors: true}})
		overflow := `{"type":"error","error":{"type":"BadRequestError","message":"This model's maximum context length is 4 tokens. However, you requested 3 output tokens and your prompt contains at least 2 input tokens"}}`
		f.engine("r0").set(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(400)
			_, _ = io.WriteString(w, overflow)
		})
		plain := strings.Replace(chatBody("x"), "{", `{"stream":true,`, 1)
		if r := f.post("/v1/messages", plain); r.body != overflow {
			t.Errorf("the error was reworded: %s", r.body)
		}
		f.post("/v1/chat/completions", plain)
		for _, got := range f.engine("r0").requests() {
			if got.body != plain {
				t.Errorf("the engine got %s", got.body)
			}
		}
	})
}

// A replica that refuses connections is tried once a second, not once a turn.
func TestDeadReplicaIsLeftAlone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, setup{engines: 2})
		f.engine("r0").kill()
		for i := range 10 {
			f.chat(fmt.Sprint("s", i))
		}
		if n := len(f.noted(&f.failures)); n != 1 {
			t.Errorf("10 turns met the dead replica %d times", n)
		}
		elapse(deployment.ConnectPause)
		for i := range 10 {
			f.chat(fmt.Sprint("t", i))
		}
		if n := len(f.noted(&f.failures)); n != 2 {
			t.Errorf("a second later it was met %d times in all, want 2", n)
		}
	})
}

// A fork has another id and the same history: it begins where that is warm.
func TestForkBeginsWhereItsHistoryIs(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, setup{engines: 4})
		long := strings.Repeat("a long description of the task ", 400)
		ask := func(session, more string) (replica, reason string) {
			r := f.post("/v1/chat/completions", fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":%q}%s]}`, testModel, long, more), "X-Session-Id", session)
			return r.header.Get("X-Warden-Replica"), r.header.Get("X-Warden-Reason")
		}
		history := `,{"role":"assistant","content":"yes"},{"role":"user","content":"go on"}`
		for i := range 4 { // the fork is of the fourth: no tie-break leads there
			f.chat(fmt.Sprint("other", i))
		}
		ask("parent", "")
		home, _ := ask("parent", history)
		for _, fork := range []string{"fork1", "fork2"} {
			if replica, reason := ask(fork, history+`,{"role":"assistant","content":"ok"},{"role":"user","content":"`+fork+`"}`); replica != home || reason != "inherit" {
				t.Errorf("%s: %s on %s, the history is on %s", fork, reason, replica, home)
			}
		}
	})
}
