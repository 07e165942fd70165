package mends

import "testing"

func TestSystemTurns(t *testing.T) {
	for _, c := range []struct {
		policy        SystemTurns
		claude, other Act
	}{
		{"", Fold, Pass},
		{SystemTurnsAuto, Fold, Pass},
		{SystemTurnsFold, Fold, Fold},
		{SystemTurnsRejectOnce, Reject, Pass},
		{SystemTurnsKeep, Pass, Pass},
	} {
		if got := c.policy.For("claude-code"); got != c.claude {
			t.Errorf("%q for Claude Code: %d, want %d", c.policy, got, c.claude)
		}
		if got := c.policy.For("anthropic-sdk"); got != c.other {
			t.Errorf("%q for others: %d, want %d", c.policy, got, c.other)
		}
		if err := c.policy.Check(); err != nil {
			t.Error(err)
		}
	}
	if SystemTurns("drop").Check() == nil {
		t.Error("an unknown policy was accepted")
	}
}
