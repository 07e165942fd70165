package placement

import (
	"testing"
	"time"
)

// restarted is a new Placer that was given what the old one saved.
func restarted(t *testing.T, saved []Saved, set []Replica, restoreFirst bool) *rig {
	t.Helper()
	r := newRig(t, Config{})
	if restoreFirst {
		r.step(Restore{saved})
		r.step(Replicas{set})
	} else {
		r.step(Replicas{set})
		r.step(Restore{saved})
	}
	return r
}

func TestConversationsGoHomeAfterARestart(t *testing.T) {
	const sessions = 20
	before := newRig(t, Config{}, fleet(4)...)
	homes := map[Key]ReplicaID{}
	for i := range sessions {
		homes[key(i)] = before.turn(Turn{Key: key(i), Root: 7, PromptTokens: 1000}).Replica
	}
	saved := before.p.Saved()
	if len(saved) != sessions {
		t.Fatalf("%d of %d saved", len(saved), sessions)
	}
	for name, first := range map[string]bool{"restored before the replicas are told of": true, "restored after": false} {
		t.Run(name, func(t *testing.T) {
			set := fleet(4)
			set[2].Generation = 2 // this one was restarted meanwhile
			r := restarted(t, saved, set, first)
			for k, home := range homes {
				d := r.turn(Turn{Key: k, Root: 7, PromptTokens: 1400})
				switch {
				case home == "r2" && d.Reason == ReasonSticky:
					t.Errorf("%s is sticky on a process that has not seen it", k)
				case home != "r2" && (d.Replica != home || d.Reason != ReasonSticky || d.ExpectedCached == 0):
					t.Errorf("%s lived on %s and went to %s (%s), expecting %d cached", k, home, d.Replica, d.Reason, d.ExpectedCached)
				}
			}
			if len(r.p.saved) != 0 {
				t.Errorf("%d still wait for a generation that has passed", len(r.p.saved))
			}
		})
	}
}

func TestRestoreWaitsForAdoption(t *testing.T) {
	before := newRig(t, Config{}, fleet(1)...)
	before.turn(Turn{Key: key(1), PromptTokens: 1000})
	pending := fleet(1)
	pending[0].Generation, pending[0].Accepting = 0, false
	r := restarted(t, before.p.Saved(), pending, true)
	if known := r.p.sessions.Len(); known != 0 {
		t.Errorf("%d conversations seated on a process that is not known to run", known)
	}
	r.step(Replicas{fleet(1)})
	if d := r.turn(Turn{Key: key(1), PromptTokens: 1400}); d.Reason != ReasonSticky {
		t.Errorf("reason %s after the adoption", d.Reason)
	}
}

func TestOldAndForeignConversationsStayAway(t *testing.T) {
	r := newRig(t, Config{MaxSessions: 3}, fleet(1)...)
	r.turn(Turn{Key: key(9), PromptTokens: 10})
	saved := []Saved{
		{Key: key(1), Home: "r0", Generation: 1, LastSeen: r.now.Add(-2 * time.Hour)}, // beyond the TTL
		{Home: "r0", Generation: 1, LastSeen: r.now},                                  // names nothing
		{Key: key(9), Home: "r0", Generation: 1, Tokens: 5, LastSeen: r.now},          // came back by itself
		{Key: key(2), Home: "r0", Generation: 1, LastSeen: r.now.Add(time.Hour)},      // the clock went back
	}
	for i := range 10 {
		saved = append(saved, Saved{Key: key(100 + i), Home: "r0", Generation: 1, LastSeen: r.now})
	}
	r.step(Restore{saved})
	if n := r.p.sessions.Len(); n > 3 {
		t.Errorf("%d conversations known, the limit is 3", n)
	}
	if r.p.sessions.Get(key(1)) != nil {
		t.Error("a conversation beyond its TTL is back")
	}
}
