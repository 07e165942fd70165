package breaks

import (
	"strings"
	"testing"
	"time"

	"github.com/lm-warden/warden/router/identity"
)

var start = time.Unix(1_700_000_000, 0)

// grown is a good turn of a conversation that only appends: 10,000 tokens of
// history, all of them cached.
func grown() Turn {
	return Turn{
		Client: "claude-code", Turns: 5, Replica: "r0", Generation: 1, Believed: 10_000, Bounded: true,
		Good: true, Prompt: 11_000, Cached: 9_984,
		Same: identity.Resolution{Kind: identity.KindSame, Change: identity.Change{Known: true, Shared: 3, Turns: 3}},
	}
}

// after is what Ended finds in a turn after one with a prompt of 10,000 tokens.
func after(t Turn) *Found {
	var w Watch
	p := &Past{}
	first := grown()
	first.Prompt, first.Same = 10_000, identity.Resolution{Kind: identity.KindNew}
	w.Ended(p, first, start)
	f, _ := w.Ended(p, t, start.Add(time.Second))
	return f
}

func TestWhatCounts(t *testing.T) {
	for _, c := range []struct {
		name  string
		edit  func(*Turn)
		cause identity.Cause // "" for none
	}{
		{"all cached", func(*Turn) {}, ""},
		{"new system turn, hoisted", func(u *Turn) { u.Cached = 200; u.Same.Change.SystemTurns = 1 }, identity.CauseSystemTurns},
		{"new system turn, rewritten by warden", func(u *Turn) { u.Cached = 200; u.Same.Change.SystemTurns = 1; u.Folded = true }, ""},
		{"date in the system prompt", func(u *Turn) { u.Cached = 0; u.Same.Change.System = identity.SystemNumbers }, identity.CauseSystemNumbers},
		{"tools added, conversation itself evicted in part", func(u *Turn) { u.Cached = 0; u.Believed = 300; u.Same.Change.ToolsAdded = 2 }, identity.CauseTools},
		{"tools added, nothing was left", func(u *Turn) { u.Cached = 0; u.Believed = 0; u.Same.Change.ToolsAdded = 2 }, ""},
		{"billing line", func(u *Turn) { u.Cached = 16; u.Same.Change.Billing = true }, identity.CauseBilling},
		{"history pruned while it grows", func(u *Turn) { u.Cached = 1000; u.Same.Change.Shared = 1; u.Same.Kind = identity.KindRewind }, identity.CauseHistory},
		{"user goes back", func(u *Turn) {
			u.Cached = 1000
			u.Same.Change.Shared, u.Turns = 1, 3
			u.Same.Kind = identity.KindRewind
		}, ""},
		{"compaction", func(u *Turn) {
			u.Cached = 0
			u.Same.Change.Shared, u.Same.Change.Compacted = 0, true
		}, ""},
		{"half is enough", func(u *Turn) { u.Cached = 5_000; u.Same.Change.SystemTurns = 1 }, ""},
		{"just under half", func(u *Turn) { u.Cached = 4_999; u.Same.Change.SystemTurns = 1 }, identity.CauseSystemTurns},
		{"evicted, as placement knows", func(u *Turn) { u.Cached = 0; u.Believed = 900; u.Same.Change.SystemTurns = 1 }, ""},
		{"size of the cache unknown", func(u *Turn) { u.Cached = 0; u.Bounded = false; u.Same.Change.SystemTurns = 1 }, ""},
		{"other replica", func(u *Turn) { u.Cached = 0; u.Replica = "r1"; u.Same.Change.SystemTurns = 1 }, ""},
		{"restarted replica", func(u *Turn) { u.Cached = 0; u.Generation = 2; u.Same.Change.SystemTurns = 1 }, ""},
		{"not measured", func(u *Turn) { u.Cached = -1; u.Same.Change.SystemTurns = 1 }, ""},
		{"failed", func(u *Turn) { u.Cached = 0; u.Good = false; u.Same.Change.SystemTurns = 1 }, ""},
		{"beside another turn", func(u *Turn) { u.Cached = 0; u.Same.Busy = true; u.Same.Change.SystemTurns = 1 }, ""},
		{"retry", func(u *Turn) { u.Cached = 0; u.Same.Kind = identity.KindRetry }, ""},
		{"unseen cause, once", func(u *Turn) { u.Cached = 0 }, ""},
		{"small prompt", func(u *Turn) { u.Prompt, u.Cached = 1_000, 0; u.Same.Change.SystemTurns = 1 }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			u := grown()
			c.edit(&u)
			f := after(u)
			switch {
			case (f != nil) != (c.cause != ""):
				t.Fatalf("found %+v, want %q", f, c.cause)
			case f != nil && (f.Cause != c.cause || f.Cached != u.Cached || f.Allowed != 10_000 || f.Replica != "r0" || f.Fix == ""):
				t.Errorf("found %+v, want %q", f, c.cause)
			}
		})
	}
}

// What no request shows must repeat itself, and twice in a row.
func TestUnseenCauses(t *testing.T) {
	for cause, reasoning := range map[identity.Cause]int{identity.CauseEngine: 0, identity.CauseReasoning: 1} {
		var w Watch
		p := &Past{}
		lost, kept := grown(), grown()
		lost.Cached, lost.Same.Change.Reasoning = 100, reasoning
		w.Ended(p, grown(), start)
		for i, u := range []Turn{lost, kept, lost} {
			if f, _ := w.Ended(p, u, start); f != nil {
				t.Errorf("turn %d: found %+v", i, f)
			}
		}
		if f, say := w.Ended(p, lost, start); f == nil || f.Cause != cause || say != Conversation || p.Found != f {
			t.Errorf("the second in a row: %+v, %d", f, say)
		}
	}
}

func TestSaidOncePerConversationAndClient(t *testing.T) {
	var w Watch
	lost := grown()
	lost.Cached, lost.Same.Change.SystemTurns = 100, 1
	breaks := func(p *Past, client string, at time.Duration) Say {
		u := lost
		u.Client = client
		w.Ended(p, grown(), start.Add(at))
		_, say := w.Ended(p, u, start.Add(at))
		return say
	}
	first := &Past{}
	for i, c := range []struct {
		past   *Past
		client string
		at     time.Duration
		want   Say
	}{
		{first, "claude-code", 0, Conversation},
		{first, "claude-code", time.Minute, Nothing},
		{&Past{}, "claude-code", time.Minute, Client},
		{&Past{}, "claude-code", 2 * time.Minute, Counted},
		{&Past{}, "cline", 2 * time.Minute, Conversation},
		{&Past{}, "claude-code", quiet, Counted}, // 58 minutes after the latest
		{&Past{}, "claude-code", 3 * quiet, Conversation},
	} {
		if got := breaks(c.past, c.client, c.at); got != c.want {
			t.Errorf("step %d: say %d, want %d", i, got, c.want)
		}
	}
	if s := first.Found.Sentence("session 9f3a"); !strings.HasPrefix(s, "session 9f3a found 100 of 10000 tokens of its history cached: 1 new system message") ||
		!strings.Contains(s, "CLAUDE_CODE_TOTAL_TOKENS_REMINDER") {
		t.Error(s)
	}
}
