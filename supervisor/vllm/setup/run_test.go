package setup

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestExecLines(t *testing.T) {
	var got []string
	err := Exec(t.Context(), Command{Argv: []string{"/bin/sh", "-c", `printf 'a\n\n10%%\r20%%\rend'; echo err >&2`}},
		func(s string) { got = append(got, s) })
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"a", "10%", "20%", "enderr"}, got); d != "" {
		t.Error(d)
	}
}

func TestExecFailure(t *testing.T) {
	err := Exec(t.Context(), Command{Argv: []string{"/bin/sh", "-c", "echo 'No matching distribution found for x'; exit 3"}}, func(string) {})
	var ce *CommandError
	if !errors.As(err, &ce) {
		t.Fatalf("err = %v", err)
	}
	for _, want := range []string{"exit status 3", "| No matching distribution", "fix: the package index has no such version"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error lacks %q: %v", want, err)
		}
	}
}

func TestExecNoSuchProgram(t *testing.T) {
	err := Exec(t.Context(), Command{Argv: []string{"/nowhere/prog"}}, func(string) {})
	if err == nil || !strings.Contains(err.Error(), "cannot start prog") {
		t.Errorf("err = %v", err)
	}
}

// TestExecEndsTheGroup interrupts a program that has a child of its own, which
// ignores SIGTERM and keeps the output open: neither may be left.
func TestExecEndsTheGroup(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	script := `sh -c 'trap "" TERM; echo $$; while :; do sleep 1; done' & wait`
	child := -1 // as a pidfd, which cannot be mistaken for a later process
	err := execute(ctx, Command{Argv: []string{"/bin/sh", "-c", script}}, func(s string) {
		pid, err := strconv.Atoi(s)
		if err == nil {
			child, err = unix.PidfdOpen(pid, 0)
		}
		if err != nil {
			t.Errorf("child %q: %v", s, err)
		}
		cancel()
	}, 50*time.Millisecond)
	if !errors.Is(err, context.Canceled) || child < 0 {
		t.Fatalf("err = %v, child = %d", err, child)
	}
	defer unix.Close(child)
	// A pidfd is readable once its process has ended.
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(child), Events: unix.POLLIN}}, 5000)
	if n != 1 || err != nil {
		t.Errorf("the child outlived the command (poll: %d, %v)", n, err)
	}
}
