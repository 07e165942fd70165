package control

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/lm-warden/warden/supervisor/events"
)

func TestCallsReachTheDaemon(t *testing.T) {
	b := &fakeDaemon{status: Status{Version: "0.0.1-test", State: DaemonServing, Replicas: []Replica{{ID: "r0", State: StateReady}}}}
	_, c := serve(t, ServerOptions{Daemon: b})
	ctx := testContext(t)

	st, err := c.Status(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if st.Schema != Schema || st.Now.IsZero() || st.Count(StateReady) != 1 || st.Count(StateParked, StateStuck) != 0 {
		t.Errorf("status %+v", st)
	}
	if v, err := c.Version(ctx); err != nil || v.PID != os.Getpid() || v.Details["vllm"] != "0.26.0" {
		t.Errorf("version %+v, %v", v, err)
	}
	if cfg, err := c.Config(ctx); err != nil || string(cfg) != `{"listen":"127.0.0.1:8000"}` {
		t.Errorf("config %s, %v", cfg, err)
	}
	if ch, err := c.SetAffinity(ctx, "a model/with?odd name", false); err != nil || ch.New != PolicyBalance || ch.SessionsLive != 24 {
		t.Errorf("affinity %+v, %v", ch, err)
	}
	if ch, err := c.SetPolicy(ctx, "m", PolicyAdmission); err != nil || ch.New != PolicyAdmission {
		t.Errorf("policy %+v, %v", ch, err)
	}
	var refused *Error
	if _, err := c.SetPolicy(ctx, "m", "best"); !errors.As(err, &refused) || refused.Code != CodeBadRequest {
		t.Errorf("an unknown policy: %v", err)
	}
	if ch, err := c.SetSpillLimit(ctx, "m", 0); err != nil || ch.Old != 8 {
		t.Errorf("spill %+v, %v", ch, err)
	}
	for _, action := range []ReplicaAction{Restart, Drain, Undrain, Kill, Retry} {
		if a, err := c.Replica(ctx, "r1", action); err != nil || a.Generation != 3 || a.Action != action {
			t.Errorf("%s: %+v, %v", action, a, err)
		}
	}
	for _, req := range []ShutdownRequest{{}, {Drain: Duration(90 * time.Second)}, {Now: true}} {
		if err := c.Shutdown(ctx, req); err != nil {
			t.Error(err)
		}
	}
	want := []string{
		"affinity a model/with?odd name false", "policy m admission", "spill m 0",
		"restart r1", "drain r1", "undrain r1", "kill r1", "retry r1",
		"shutdown drain 0s now false", "shutdown drain 1m30s now false", "shutdown drain 0s now true",
	}
	if diff := cmp.Diff(want, b.orders); diff != "" {
		t.Error(diff)
	}
}

func TestRefusals(t *testing.T) {
	b := &fakeDaemon{err: &Error{Code: CodeReplicaNotFound, Message: "no replica r9", Hint: "r0, r1"}}
	_, c := serve(t, ServerOptions{Daemon: b})
	tests := []struct {
		method, path, body string
		status             int
		code               string
	}{
		{"POST", "/v1/replicas/r9/restart", "", 404, CodeReplicaNotFound},
		{"POST", "/v1/replicas/r9/explode", "", 404, CodeNotFound},
		{"GET", "/v1/replicas/r9/restart", "", 404, CodeNotFound},
		{"GET", "/v2/status", "", 404, CodeNotFound},
		{"PUT", "/v1/models/m/affinity", `{"mode":"maybe"}`, 400, CodeBadRequest},
		{"PUT", "/v1/models/m/affinity", ``, 400, CodeBadRequest},
		{"PUT", "/v1/models/m/affinity", `{"mod":"on"}`, 400, CodeBadRequest},
		{"PUT", "/v1/models/m/affinity", `{"mode":"on"} {}`, 400, CodeBadRequest},
		{"PUT", "/v1/models/m/spill", `{}`, 400, CodeBadRequest},
		{"PUT", "/v1/models/m/spill", `{"limit":-1}`, 400, CodeBadRequest},
		{"POST", "/v1/shutdown", `{"drain":"soon"}`, 400, CodeBadRequest},
		{"POST", "/v1/shutdown", `{"drain":"-3s"}`, 400, CodeBadRequest},
		{"POST", "/v1/shutdown", `"` + strings.Repeat("x", maxBody) + `"`, 400, CodeBadRequest},
		{"GET", "/v1/logs?tail=-1", "", 400, CodeBadRequest},
		{"GET", "/v1/logs?since=yesterday", "", 400, CodeBadRequest},
		{"GET", "/v1/logs?follow=1&previous=1", "", 400, CodeBadRequest},
		{"GET", "/v1/logs?follow=perhaps", "", 400, CodeBadRequest},
		{"GET", "/v1/logs", "", 404, CodeReplicaNotFound},
	}
	for _, tt := range tests {
		req, err := http.NewRequestWithContext(testContext(t), tt.method, "http://warden"+tt.path, strings.NewReader(tt.body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := c.http.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var got errorBody
		err = json.NewDecoder(resp.Body).Decode(&got)
		resp.Body.Close()
		if err != nil || got.Error == nil || got.Error.Code != tt.code || resp.StatusCode != tt.status {
			t.Errorf("%s %s %.40s: %d %+v (%v), want %d %s", tt.method, tt.path, tt.body, resp.StatusCode, got.Error, err, tt.status, tt.code)
		}
	}
	_, err := c.Replica(testContext(t), "r9", Kill)
	var refused *Error
	if !errors.As(err, &refused) || refused.Hint != "r0, r1" {
		t.Errorf("the client must keep code and hint: %v", err)
	}
}

func TestUnencodableFiguresAreAnError(t *testing.T) {
	b := &fakeDaemon{status: Status{Replicas: []Replica{{Engine: &Engine{KVUsed: math.NaN()}}}}}
	_, c := serve(t, ServerOptions{Daemon: b})
	_, err := c.Status(testContext(t))
	var refused *Error
	if !errors.As(err, &refused) || refused.Code != CodeInternal {
		t.Errorf("got %v", err)
	}
}

func TestWatchTellsSnapshotEventsAndHeartbeat(t *testing.T) {
	bus := events.NewBus(10)
	bus.Publish(events.Event{Kind: "state", Text: "before"})
	_, c := serve(t, ServerOptions{Bus: bus, Heartbeat: time.Millisecond, Daemon: &fakeDaemon{status: Status{State: DaemonServing}}})
	var first, beats int
	for msg, err := range c.Watch(testContext(t)) {
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case first == 0:
			first++
			if msg.Status == nil || len(msg.Recent) != 1 || msg.Recent[0].Text != "before" {
				t.Fatalf("first line %+v", msg)
			}
			bus.Publish(events.Event{Kind: "state", Replica: "r1", Text: "after", Fields: map[string]string{"to": "ready"}})
		case msg.Status != nil:
			beats++
			if msg.Status.State != DaemonServing || msg.Dropped != 0 {
				t.Fatalf("heartbeat %+v", msg)
			}
		case msg.Event != nil:
			first++
			if msg.Event.Seq != 2 || msg.Event.Replica != "r1" || msg.Event.Fields["to"] != "ready" {
				t.Fatalf("event %+v", msg.Event)
			}
		}
		if first == 2 && beats >= 2 {
			return
		}
	}
	t.Fatal("the stream ended early")
}

func TestSlowWatcherDelaysNobodyAndGetsASnapshot(t *testing.T) {
	const published = 20_000 // far more than the socket's buffers and the queue hold
	bus := events.NewBus(10)
	s, c := serve(t, ServerOptions{Bus: bus, Heartbeat: time.Hour})
	slow := json.NewDecoder(rawStream(t, s.Socket()).Body)
	readLine := func() (msg Message) {
		t.Helper()
		if err := slow.Decode(&msg); err != nil {
			t.Fatal(err)
		}
		return msg
	}
	readLine() // subscribed
	for i := range published {
		bus.Publish(events.Event{Text: strconv.Itoa(i) + strings.Repeat(" ", 200)})
	}
	if _, err := c.Status(testContext(t)); err != nil {
		t.Fatalf("others must still be served: %v", err)
	}
	var last uint64
	snapshot := false
	for last < published {
		msg := readLine()
		if msg.Event != nil {
			if msg.Event.Seq <= last {
				t.Fatalf("event %d after %d", msg.Event.Seq, last)
			}
			if msg.Event.Seq != last+1 {
				t.Fatalf("events %d to %d are missing without a snapshot between", last+1, msg.Event.Seq-1)
			}
			last = msg.Event.Seq
			continue
		}
		if msg.Dropped == 0 || msg.Status == nil || len(msg.Recent) == 0 {
			t.Fatalf("line %+v", msg)
		}
		snapshot = true
		last = msg.Recent[len(msg.Recent)-1].Seq
	}
	if !snapshot {
		t.Error("nothing was dropped: the test did not fill the queue")
	}
}

// rawStream asks for events over a plain connection, so that the test decides when bytes are read. It returns once
// the server has begun to answer.
func rawStream(t *testing.T, socket string) *http.Response {
	t.Helper()
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.SetDeadline(time.Now().Add(testTimeout)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "GET /v1/events HTTP/1.1\r\nHost: warden\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return resp
}

func TestWatcherThatTakesNothingIsCutOff(t *testing.T) {
	big := make([]Replica, 2000) // a status that fills the socket's buffers at once
	for i := range big {
		big[i] = Replica{ID: fmt.Sprint("r", i), Note: strings.Repeat("x", 1000)}
	}
	s, c := serve(t, ServerOptions{MaxStreams: 1, Heartbeat: time.Millisecond, WriteTimeout: 20 * time.Millisecond,
		Daemon: &fakeDaemon{status: Status{Replicas: big}}})
	rawStream(t, s.Socket())
	ctx := testContext(t)
	for {
		var err error
		for _, err = range c.Logs(ctx, LogQuery{}) { // yields nothing but a refusal
		}
		if err == nil {
			return // the stalled stream gave its place back
		}
		var e *Error
		if !errors.As(err, &e) || e.Code != CodeTooManyStreams {
			t.Fatal(err)
		}
	}
}

func TestCloseEndsStreamsCleanly(t *testing.T) {
	s, c := serve(t, ServerOptions{Heartbeat: time.Hour})
	n := 0
	for _, err := range c.Watch(testContext(t)) {
		if err != nil {
			t.Fatalf("a daemon that goes away is no error: %v", err)
		}
		n++
		go s.Close()
	}
	if n != 1 {
		t.Errorf("%d lines, want the snapshot", n)
	}
	s.Close() // waits for the other
	if _, err := os.Stat(s.Socket()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
	if _, err := Dial(testContext(t), s.Socket()); !errors.Is(err, ErrNoDaemon) {
		t.Errorf("after Close: %v", err)
	}
}

func TestCloseWithoutServe(t *testing.T) {
	path := socketPath(t)
	for range 2 { // the second proves that the first gave everything back
		s, err := Listen(ServerOptions{Socket: path, Daemon: &fakeDaemon{}, Bus: events.NewBus(0)})
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
		s.Close()
	}
}

func TestLogs(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	b := &fakeDaemon{lines: []LogLine{{Replica: "r0", At: at, Generation: 2, Text: "one"}, {Replica: "r0", Text: "two", Dropped: 3}}}
	_, c := serve(t, ServerOptions{Daemon: b})
	var got []LogLine
	for line, err := range c.Logs(testContext(t), LogQuery{Replicas: []string{"r0", "r1"}, Tail: 5, Since: at, Previous: true}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, line)
	}
	if diff := cmp.Diff(b.lines, got); diff != "" {
		t.Error(diff)
	}
	b.err = errors.New("the log file is gone")
	got = nil
	for line, err := range c.Logs(testContext(t), LogQuery{}) {
		if err == nil {
			got = append(got, line)
			continue
		}
		var e *Error
		if !errors.As(err, &e) || e.Message != "the log file is gone" {
			t.Errorf("in-band error: %v", err)
		}
	}
	if len(got) != 2 {
		t.Errorf("%d lines before the error, want 2", len(got))
	}
	want := []string{"logs [r0 r1] tail 5 follow false previous true", "logs [] tail 0 follow false previous false"}
	if diff := cmp.Diff(want, b.orders); diff != "" {
		t.Error(diff)
	}
}

func TestFollowedLogsArriveAtOnceAndEndWithTheReader(t *testing.T) {
	b := &fakeDaemon{lines: []LogLine{{Replica: "r0", Text: "one"}}}
	_, c := serve(t, ServerOptions{Daemon: b})
	for line, err := range c.Logs(testContext(t), LogQuery{Follow: true}) {
		if err != nil || line.Text != "one" {
			t.Fatalf("%+v, %v", line, err)
		}
		break // the server side still waits; the cleanup fails the test if it does not end
	}
}

func TestLogQueryRoundTrip(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 600, time.UTC)
	for _, q := range []LogQuery{{}, {Replicas: []string{"r0", "r 1"}, Tail: 7, Since: at}, {Follow: true}, {Previous: true}} {
		got, err := parseLogQuery(q.values())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(q, got); diff != "" {
			t.Error(diff)
		}
	}
}

func TestAllowed(t *testing.T) {
	for _, tt := range []struct {
		peer, daemon uint32
		want         bool
	}{{1000, 1000, true}, {0, 1000, true}, {1001, 1000, false}, {1000, 0, false}, {0, 0, true}} {
		if got := allowed(peer{uid: tt.peer}, tt.daemon); got != tt.want {
			t.Errorf("uid %d to a daemon of uid %d: %t", tt.peer, tt.daemon, got)
		}
	}
}

func TestOtherUsersAreRefused(t *testing.T) {
	b := &fakeDaemon{}
	for name, opts := range map[string]ServerOptions{
		"another uid": {Daemon: b, peerOf: func(net.Conn) (peer, error) { return peer{uid: uint32(os.Geteuid()) + 1}, nil }},
		"no answer":   {Daemon: b, peerOf: func(net.Conn) (peer, error) { return peer{}, errors.New("no credentials") }},
	} {
		_, c := serve(t, opts)
		err := c.Shutdown(testContext(t), ShutdownRequest{})
		var refused *Error
		if !errors.As(err, &refused) || refused.Code != CodeForbidden {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(b.orders) != 0 {
		t.Errorf("orders got through: %q", b.orders)
	}
}

// TestKernelNamesThePeer lets a process of another user connect. It needs root to become that user.
func TestKernelNamesThePeer(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can start a process of another user")
	}
	const nobody = 65534
	s, _ := serve(t, ServerOptions{})
	dir := strings.TrimSuffix(s.Socket(), "/s.sock")
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		mode os.FileMode
		want string
	}{
		{0o600, fmt.Sprintf("denied socket %s belongs to uid 0 (root)", s.Socket())},
		{0o666, "refused " + CodeForbidden}, // even where the file would let them in
	} {
		if err := os.Chmod(s.Socket(), tt.mode); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(testContext(t), os.Args[0])
		cmd.Env = []string{fmt.Sprintf("%s=%d:%s", dialAsEnv, nobody, s.Socket())}
		out, err := cmd.CombinedOutput()
		if err != nil || string(out) != tt.want {
			t.Errorf("mode %o: %q (%v), want %q", tt.mode, out, err, tt.want)
		}
	}
}

// upgradable is a Daemon that can be taken over from.
type upgradable struct{ *fakeDaemon }

func (u upgradable) Upgrade(context.Context) (Upgraded, error) {
	return Upgraded{PID: 4121}, u.order("upgrade")
}

func TestUpgrade(t *testing.T) {
	b := upgradable{&fakeDaemon{}}
	_, c := serve(t, ServerOptions{Daemon: b})
	if next, err := c.Upgrade(testContext(t)); err != nil || next.PID != 4121 {
		t.Errorf("upgrade %+v, %v", next, err)
	}
	_, c = serve(t, ServerOptions{Daemon: b.fakeDaemon})
	var refused *Error
	if _, err := c.Upgrade(testContext(t)); !errors.As(err, &refused) || refused.Code != CodeNotFound {
		t.Errorf("upgrade of a Daemon that has no program: %v", err)
	}
}
