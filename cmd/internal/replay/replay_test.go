package replay

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lm-warden/warden/cmd/internal/accesslog"
	"github.com/lm-warden/warden/cmd/internal/load"
	"github.com/lm-warden/warden/router/record"
)

var began = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// line is an answered turn of a session: at seconds after the beginning, with
// its prompt, what of it was cached, and its answer.
func line(session string, at float64, reason string, prompt, cached, output int) accesslog.Line {
	ttft := 0.5
	return accesslog.Line{
		Time: began.Add(time.Duration(at * float64(time.Second))), Session: session, Path: "/v1/chat/completions", Model: "m",
		Class: "main", Replica: "r0", Reason: reason, Status: 200, Outcome: record.Complete, PromptTokens: &prompt, CachedTokens: &cached,
		OutputTokens: &output, TTFBSeconds: &ttft, TTFTSeconds: &ttft, DurationSeconds: 2,
	}
}

func plan(t *testing.T, lines ...accesslog.Line) Plan {
	t.Helper()
	p, err := Make(lines, 0)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestConversationsAreKeptApart(t *testing.T) {
	p := plan(t,
		line("b", 5, "new", 1500, 800, 20), // lines come in the order they ended
		line("a", 0, "new", 1000, 0, 10),
		line("a", 10, "sticky", 1300, 1000, 30),
		line("", 12, "no_key", 700, 0, 5),
		line("a", 11, "sticky", 1310, 1000, 30), // came while the turn before it ran
	)
	second := time.Second
	want := []load.Talk{
		{Name: "m a", Group: "m chat  main", Shared: 800, Model: "m", Steps: []load.Step{
			{API: "chat", At: 0, Prompt: 1000, Output: 10}, {API: "chat", At: 10 * second, Prompt: 1300, Output: 30, Cached: 1000},
			{API: "chat", At: 11 * second, Prompt: 1310, Output: 30, Cached: 1000, Overlaps: true}}},
		{Name: "m b", Group: "m chat  main", Shared: 800, Model: "m", Steps: []load.Step{{API: "chat", At: 5 * second, Prompt: 1500, Output: 20, Cached: 800}}},
		{Name: "", Group: "m chat  main", Shared: 699, Model: "m", Steps: []load.Step{{API: "chat", At: 12 * second, Prompt: 700, Output: 5}}},
	}
	if diff := cmp.Diff(want, p.Talks); diff != "" {
		t.Error(diff)
	}
	if p.Requests != 5 || p.Sessions != 2 || p.Length != 12*second {
		t.Errorf("%d requests, %d sessions, %v", p.Requests, p.Sessions, p.Length)
	}
}

// A log and its copy, as logrotate leaves both for a moment, are one load.
func TestCopiesArePlayedOnce(t *testing.T) {
	a, b, c := line("a", 0, "new", 100, 0, 1), line("b", 0, "new", 100, 0, 1), line("a", 1, "sticky", 200, 100, 1)
	for id, l := range map[string]*accesslog.Line{"1": &a, "2": &b, "3": &c} {
		l.RequestID = id
	}
	repeated := c
	repeated.Time = c.Time.Add(time.Second) // a client that gives its id again
	p := plan(t, a, b, c, repeated, b, a)
	if p.Requests != 4 || p.Twice != 2 {
		t.Errorf("%d requests, %d of them twice in the logs", p.Requests, p.Twice)
	}
}

func TestWhatIsNotPlayed(t *testing.T) {
	refused, silent, unknown := line("a", 1, "", 0, 0, 0), line("a", 2, "new", 50, 0, 0), line("a", 3, "new", 0, 0, 0)
	refused.Outcome = record.Refused
	silent.Path = "/v1/embeddings"
	unknown.PromptTokens = nil
	p := plan(t, line("a", 0, "new", 100, 0, 1), refused, silent, unknown)
	if p.Requests != 1 || p.Refused != 1 || p.Silent != 1 || p.Unknown != 1 {
		t.Errorf("%+v", p)
	}
	if _, err := Make([]accesslog.Line{refused}, 0); err == nil {
		t.Error("a log of refusals only is played")
	}
}

// Each request is played over its own API, and shares a beginning only with
// those of the same one.
func TestEachAPIIsItself(t *testing.T) {
	lines := []accesslog.Line{line("a", 0, "new", 1000, 300, 1), line("b", 1, "new", 1000, 400, 1), line("c", 2, "new", 1000, 500, 1), line("d", 3, "new", 1000, 600, 1),
		line("e", 4, "new", 1000, 0, 1)}
	for i, path := range []string{"/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/responses", "/v1/completions"} {
		lines[i].Path = path
	}
	p := plan(t, lines...)
	var got []string
	for _, talk := range p.Talks {
		got = append(got, fmt.Sprint(talk.Steps[0].API, talk.Shared))
	}
	if diff := cmp.Diff([]string{"chat300", "completions400", "messages500", "responses600", "completions400"}, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]int{"chat": 1, "completions": 2, "messages": 1, "responses": 1}, p.ByAPI); diff != "" {
		t.Error(diff)
	}
}

func TestAClientThatLeftLeavesAgain(t *testing.T) {
	left := line("a", 0, "new", 0, 0, 0)
	guess := 4000
	left.Outcome, left.PromptTokens, left.OutputTokens, left.CachedTokens, left.PromptTokensEstimated = record.Cancelled, nil, nil, nil, &guess
	p := plan(t, left)
	want := load.Step{API: "chat", Prompt: 4000, Output: unheard, LeftAfter: 2 * time.Second}
	if got := p.Talks[0].Steps[0]; got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestAsidesHaveNoConversation(t *testing.T) {
	aside := line("a", 3, "aux", 60, 0, 5)
	aside.Class = "auxiliary"
	p := plan(t, line("a", 0, "new", 1000, 0, 10), aside, line("a", 6, "sticky", 1200, 1000, 10))
	if len(p.Talks) != 2 || len(p.Talks[0].Steps) != 2 || p.Talks[1].Name != "" {
		t.Errorf("%+v", p.Talks)
	}
}

func TestSharedBeginning(t *testing.T) {
	other := line("o", 1, "new", 5000, 4000, 1)
	other.Client = "codex"
	warm := line("w", 2, "sticky", 9000, 8900, 1)
	p := plan(t, other, warm,
		line("a", 3, "new", 1000, 0, 1), line("b", 4, "new", 1000, 320, 1), line("c", 5, "new", 1000, 352, 1), line("d", 6, "new", 1000, 992, 1))
	got := map[string]int{}
	for _, talk := range p.Talks {
		got[talk.Name] = talk.Shared
	}
	// a found nothing, as the first on its replica: it shares what is usual. The
	// history of w is its own.
	want := map[string]int{"m o": 4000, "m w": 352, "m a": 352, "m b": 320, "m c": 352, "m d": 992}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if p.Warm != 1 {
		t.Errorf("%d conversations began before the log, want 1", p.Warm)
	}
}

func TestLimitAndModels(t *testing.T) {
	second := line("b", 100, "new", 10, 0, 1)
	second.Model = "n"
	lines := []accesslog.Line{line("a", 0, "new", 10, 0, 1), line("a", 59, "new", 10, 0, 1), second}
	if p := plan(t, lines...); cmp.Diff([]string{"m", "n"}, p.Models) != "" {
		t.Errorf("models %v", p.Models)
	}
	p, err := Make(lines, time.Minute)
	if err != nil || p.Requests != 2 || cmp.Diff([]string{"m"}, p.Models) != "" {
		t.Errorf("the first minute: %+v, %v", p, err)
	}
}

// The log's own figures are those of the same report.
func TestWhatWasMeasuredThen(t *testing.T) {
	moved := line("a", 20, "spill", 1400, 0, 40)
	moved.Replica = "r1"
	broken := line("b", 21, "new", 100, 0, 0)
	broken.Outcome = record.Cut
	report, err := plan(t, line("a", 0, "new", 1000, 0, 10), line("a", 10, "sticky", 1200, 1000, 50), moved, broken).Then.Report()
	if err != nil {
		t.Fatal(err)
	}
	half, hits, ttft := 0.5, 1000./3600, 0.5
	want := load.Report{Sessions: 2, Seconds: 23, TurnsFinished: 3, TurnsFailed: 1, CachedShare: &hits, StayedShare: &half, TTFTp50: &ttft, Replicas: 2}
	kept := cmpopts.IgnoreFields(load.Report{}, "SessionsFinished", "SessionsPerHour", "TurnsPerMinute", "OutputTokensPerMin", "TTFBp50", "TTFBp95",
		"TTFBMax", "TTFTp95", "FirstTurnTTFTp50", "LaterTurnsTTFTp50", "SessionP50", "PromptTokensFirst", "PromptTokensLongest", "BusyReplicas",
		"TurnsPerReplicaRange", "FirstError")
	if diff := cmp.Diff(want, report, kept); diff != "" {
		t.Error(diff)
	}
}

func TestSummaryNamesWhatDiffers(t *testing.T) {
	var b strings.Builder
	l := Plan{Requests: 10, ByAPI: map[string]int{"messages": 3, "chat": 7}, Sessions: 3, Length: 90 * time.Second, Refused: 2, Warm: 1}.Log([]string{"access.log", "access.log.1"})
	d := load.Drift{Sent: 10, Late: 4, LatestBy: 1.25, PromptRecorded: 1000, PromptReplayed: 990, OutputRecorded: 200, OutputReplayed: 200}
	if err := errors.Join(l.Write(&b, 2), WriteDrift(&b, d)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"access.log, access.log.1: 10 requests (7 chat, 3 messages) of 3 sessions in 1m30s, sent 2x as fast", "not played: 2 refused, 0 that", "1 session began before",
		"prompt tokens: recorded 1000, replayed 990 (-1.0%)", "output tokens: recorded 200, replayed 200 (+0.0%)", "4 of 10 requests were sent late, at most 1.2s",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing in\n%s", want, b.String())
		}
	}
}
