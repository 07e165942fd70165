package shim

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTakeSpecRefusesHalfOnes(t *testing.T) {
	dir := t.TempDir()
	if _, err := takeSpec(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no spec: %v", err)
	}
	if err := WriteSpec(dir, Spec{Replica: "r0"}); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(dir, specFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("a spec may hold secrets: mode %v, %v", info.Mode(), err)
	}
	if _, err := takeSpec(dir); err == nil || !strings.Contains(err.Error(), "must be set") {
		t.Errorf("half a spec: %v", err)
	}
}

func TestArgvHashTellsWhereArgumentsEnd(t *testing.T) {
	if ArgvHash([]string{"a", "b"}) == ArgvHash([]string{"ab"}) || ArgvHash([]string{"a", ""}) == ArgvHash([]string{"a"}) {
		t.Error("different command lines, one hash")
	}
}

func FuzzReadState(f *testing.F) {
	f.Add([]byte(`{"replica":"r0","pid":7,"start":12,"exit":{"code":1,"at":"2026-01-02T12:00:00Z"},"gone":true}`))
	f.Add([]byte(`{"pid":-1}`))
	f.Add([]byte(`[`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, stateFile), raw, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := ReadState(dir)
		if err != nil {
			return
		}
		if err := writeState(dir, s); err != nil {
			t.Fatal(err)
		}
		if again, err := ReadState(dir); err != nil || again.PID != s.PID || again.Mark != s.Mark || again.Gone != s.Gone {
			t.Fatalf("%+v became %+v, %v", s, again, err)
		}
	})
}

func TestReapLeavesAnotherBootAlone(t *testing.T) {
	dir := t.TempDir()
	self := os.Getpid()
	if err := writeState(dir, State{Replica: "r0", BootID: "another", ShimPID: self, PID: self}); err != nil {
		t.Fatal(err)
	}
	if ended, err := Reap(t.Context(), dir); len(ended) != 0 || err != nil {
		t.Errorf("Reap = %v, %v", ended, err)
	}
}

func TestDamagedStateDoesNotStopTheNextStart(t *testing.T) {
	r := startShim(t, nil, "--children", "setsid")
	r.line("serving")
	if err := os.WriteFile(filepath.Join(r.dir, stateFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	words, err := End(within(t), r.dir, limit)
	if err != nil || words == "" {
		t.Errorf("End = %q, %v", words, err)
	}
	r.nothingLeft()
}
