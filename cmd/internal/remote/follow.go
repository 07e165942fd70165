package remote

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lm-warden/warden/cmd/internal/exit"
	"github.com/lm-warden/warden/supervisor/control"
)

// switchLimit is for the new warden to answer on the control socket once it
// was told to take over.
const switchLimit = 30 * time.Second

// Order orders something for a replica. With wait it follows the replica until it
// has arrived where the order leads, at most for timeout. It says what became of
// the order.
func Order(ctx context.Context, c *control.Client, id string, action control.ReplicaAction, wait bool, timeout time.Duration) (string, error) {
	accepted, err := c.Replica(ctx, id, action)
	if err != nil {
		return "", err
	}
	if !wait {
		return fmt.Sprintf("%s: %s ordered", id, action), nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for msg, err := range c.Watch(ctx) {
		if err != nil {
			return "", err
		}
		if msg.Status == nil {
			continue
		}
		r, ok := FindReplica(*msg.Status, id)
		if !ok {
			return "", fmt.Errorf("replica %s is gone", id)
		}
		if done, err := actionDone(r, action, accepted.Generation); done || err != nil {
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("%s: %s", id, r.State), nil
		}
	}
	return "", fmt.Errorf("%s: still not done after %v", id, timeout)
}

// actionDone says whether the replica has arrived where the action leads. A
// restart has when a later generation is ready.
func actionDone(r control.Replica, action control.ReplicaAction, generation uint64) (bool, error) {
	if r.State == control.StateParked || r.State == control.StateStuck {
		return true, exit.Fail(exit.Start, fmt.Errorf("%s is %s: %s", r.ID, r.State, r.Note), "`warden logs "+r.ID+"` shows why")
	}
	switch action {
	case control.Drain:
		return r.State == control.StateStopped || (r.State == control.StateDraining && r.Held == 0), nil
	case control.Restart, control.Kill:
		return r.State == control.StateReady && r.Generation > generation, nil
	default:
		return r.State == control.StateReady, nil
	}
}

// AwaitPID waits until the process answers on the control socket.
func AwaitPID(ctx context.Context, c *control.Client, pid int) (control.Version, error) {
	ctx, cancel := context.WithTimeout(ctx, switchLimit)
	defer cancel()
	for {
		v, err := c.Version(ctx)
		if err == nil && v.PID == pid {
			return v, nil
		}
		select {
		case <-ctx.Done():
			return v, fmt.Errorf("warden with pid %d does not answer on %s: %w", pid, c.Socket(), errors.Join(err, ctx.Err()))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// AwaitEnd returns when nobody answers on the socket any more.
func AwaitEnd(ctx context.Context, socket string) error {
	for {
		c, err := control.Dial(ctx, socket)
		if errors.Is(err, control.ErrNoDaemon) {
			return nil
		}
		if err == nil {
			c.Close()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}
