package router

import (
	"testing"
	"time"

	"github.com/lm-warden/warden/router/placement"
)

func TestSavedSessionsComeBackWithTheirGeneration(t *testing.T) {
	old := New(Options{})
	defer old.Close()
	replicas := []Replica{{ID: "r0", Generation: 3, Address: "unix:/a", Accepting: true}, {ID: "r1", Generation: 5, Address: "unix:/b", Accepting: true}}
	model := []Model{{Alias: "m", Repo: "o/m"}}
	if err := old.SetModels(model); err != nil {
		t.Fatal(err)
	}
	if err := old.SetReplicas("m", replicas); err != nil {
		t.Fatal(err)
	}
	key := "0123456789abcdef0123456789abcdef"
	saved := []SavedSession{
		{Key: key, Client: "codex", Home: "r1", Generation: 5, Tokens: 900, Turns: 4, LastSeen: time.Now()},
		{Key: "fedcba9876543210fedcba9876543210", Home: "r0", Generation: 2, LastSeen: time.Now()}, // an earlier process
	}
	if err := old.RestoreSessions("m", saved); err != nil {
		t.Fatal(err)
	}
	again := old.SaveSessions("m")
	if len(again) != 1 || again[0].Key != key || again[0].Home != "r1" || again[0].Generation != 5 || again[0].Tokens != 900 ||
		again[0].Turns != 4 || again[0].Client != "codex" {
		t.Errorf("saved again: %+v", again)
	}
	if m := old.Snapshot(10).Models[0]; len(m.Sessions) != 1 || m.Sessions[0].Client != "codex" || m.Sessions[0].Home != "r1" {
		t.Errorf("shown: %+v", m.Sessions)
	}
}

func TestDamagedSavedSessionsAreLeftOut(t *testing.T) {
	r := New(Options{})
	defer r.Close()
	if err := r.SetModels([]Model{{Alias: "m", Placement: placement.Config{}}}); err != nil {
		t.Fatal(err)
	}
	if err := r.SetReplicas("m", []Replica{{ID: "r0", Generation: 1, Accepting: true}}); err != nil {
		t.Fatal(err)
	}
	good := SavedSession{Key: "0123456789abcdef0123456789abcdef", Home: "r0", Generation: 1, LastSeen: time.Now()}
	for name, bad := range map[string]SavedSession{
		"no key":          {Home: "r0", Generation: 1},
		"short key":       {Key: "abcd", Home: "r0", Generation: 1},
		"no hex":          {Key: "zz23456789abcdef0123456789abcdef", Home: "r0", Generation: 1},
		"negative tokens": {Key: good.Key, Home: "r0", Generation: 1, Tokens: -1},
	} {
		if err := r.RestoreSessions("m", []SavedSession{bad, good}); err == nil {
			t.Errorf("%s: not told", name)
		}
	}
	if got := r.SaveSessions("m"); len(got) != 1 || got[0].Key != good.Key {
		t.Errorf("the good one must count: %+v", got)
	}
	if err := r.RestoreSessions("other", nil); err == nil {
		t.Error("an unknown model is not told")
	}
}
