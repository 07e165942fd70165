package shim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lm-warden/warden/supervisor/shim/proc"
)

// Reap ends what is left of the engine in dir without the help of its shim, the shim included, and returns the
// processes it ended. The error wraps proc.ErrAlive when some outlived SIGKILL until ctx ended.
func Reap(ctx context.Context, dir string) ([]proc.Process, error) {
	state, err := ReadState(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return ReapKnown(ctx, dir, state)
}

// ReapKnown is Reap for whoever knows the state: the directory may be gone, or damaged.
func ReapKnown(ctx context.Context, dir string, state State) ([]proc.Process, error) {
	boot, err := proc.BootID()
	if err != nil {
		return nil, err
	}
	if state.BootID != boot || state.Gone {
		return nil, nil
	}
	var ended []proc.Process
	// The shim first: its death takes the main process along, and it could not be told apart from a hung one.
	if p, err := proc.Read(state.ShimPID); err == nil && p.Start == state.ShimStart {
		if err := proc.Signal(p, unix.SIGKILL); err != nil {
			return nil, err
		}
		if err := waitProcess(ctx, p.PID, p.Start); err != nil {
			return nil, err
		}
		ended = append(ended, p)
	}
	rest, err := killTree(ctx, state.tree())
	ended = append(ended, rest...)
	if err != nil {
		return ended, err
	}
	state.Gone = true
	_ = writeState(dir, state) // on a full disk, or without the directory: whoever reads the old one finds nobody alive
	return ended, nil
}

// killTree kills what is alive of a tree until nothing is. Like the keeper it spares trackers for a while.
func killTree(ctx context.Context, tree proc.Tree) ([]proc.Process, error) {
	begun := time.Now()
	seen := make(map[proc.Process]bool)
	var ended []proc.Process
	for {
		members, err := proc.Living(tree)
		if err != nil || len(members) == 0 {
			return ended, err
		}
		for _, p := range members {
			id := proc.Process{PID: p.PID, Start: p.Start}
			if !seen[id] {
				seen[id] = true
				ended = append(ended, p)
			}
			if time.Since(begun) < trackerGrace && proc.IsTracker(p.PID) {
				continue
			}
			if err := proc.Signal(p, unix.SIGKILL); err != nil {
				return ended, err
			}
		}
		select {
		case <-ctx.Done():
			return ended, fmt.Errorf("%w: %v", proc.ErrAlive, members)
		case <-time.After(killEvery / 2):
		}
	}
}

// Sweep ends every engine that is left in a runtime directory, of whichever warden, but for the replicas to keep, and
// says in words what it ended. The caller makes sure that no warden is using them. Engines get grace to end by
// themselves; with none they are killed.
func Sweep(ctx context.Context, runtimeDir string, grace time.Duration, keep ...string) ([]string, error) {
	entries, err := os.ReadDir(runtimeDir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	words := make([]string, len(entries))
	errs := make([]error, len(entries))
	var all sync.WaitGroup
	for i, entry := range entries {
		if entry.IsDir() && !slices.Contains(keep, entry.Name()) {
			all.Go(func() { words[i], errs[i] = End(ctx, filepath.Join(runtimeDir, entry.Name()), grace) })
		}
	}
	all.Wait()
	return slices.DeleteFunc(words, func(w string) bool { return w == "" }), errors.Join(errs...)
}

// End ends every engine that was started in a replica's directory, by its shim if that answers, and says in words what
// it ended; empty = nothing was left. It needs no state file: that may be lost or damaged. Without grace it kills.
// The error wraps proc.ErrAlive when some process outlived SIGKILL until ctx ended.
func End(ctx context.Context, dir string, grace time.Duration) (string, error) {
	state, stateErr := ReadState(dir)
	stopped := stopShim(ctx, dir, grace) == nil
	var ended []proc.Process
	if stateErr == nil {
		var err error
		if ended, err = Reap(ctx, dir); err != nil {
			return "", fmt.Errorf("replica %s: %w", state.Replica, err)
		}
	}
	strays, err := killTree(ctx, proc.Tree{Mark: runtimeMark(dir)})
	if err != nil {
		return "", fmt.Errorf("replica in %s: %w", dir, err)
	}
	ended = append(ended, strays...)
	name := filepath.Base(dir)
	if state.Model != "" {
		name += " of " + state.Model
	}
	switch {
	case len(ended) > 0:
		return fmt.Sprintf("%s: %s left by a dead or hung shim", name, count(ended)), nil
	case stopped:
		return name, nil
	}
	return "", nil
}

// GreetLimit is how long a shim may take to greet a client that wants it to kill. It takes milliseconds; one that takes
// longer is stopped, or hangs.
const GreetLimit = 2 * time.Second

// stopGreetLimit is the same before an orderly end, which is worth waiting for on a machine that is out of breath.
const stopGreetLimit = 5 * time.Second

// stopShim asks a running shim to stop its engine, without grace to kill it, and waits for the end of both.
func stopShim(ctx context.Context, dir string, grace time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, grace+groupGrace+killLimit)
	defer cancel()
	order, patience := func(c *Client) error { return c.Stop(grace) }, stopGreetLimit
	if grace <= 0 {
		order, patience = (*Client).Kill, GreetLimit
	}
	greeted, done := context.WithTimeout(ctx, patience)
	defer done()
	c, err := Connect(greeted, dir)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := order(c); err != nil {
		return err
	}
	return c.WaitEnd(ctx)
}

func count(ps []proc.Process) string {
	if len(ps) == 1 {
		return "1 process"
	}
	return fmt.Sprintf("%d processes", len(ps))
}
