package shim

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lm-warden/warden/supervisor/shim/proc"
)

// Notice is what a shim tells its client.
type Notice struct {
	Line   *Line // one line of output
	Exited *Exit // the main process ended; the rest is being ended, or is Gone
	Stuck  []int // processes that outlived SIGKILL
	Gone   bool  // no process of the tree is left
}

// Client is a connection to a running shim.
type Client struct {
	state State
	conn  net.Conn
	in    *json.Decoder

	mu  sync.Mutex // guards writing
	out *json.Encoder
}

// writeLimit bounds how long an order may wait for a shim that does not read. The socket's buffer takes thousands of
// orders, so only a stopped shim with a full one gets there.
const writeLimit = time.Second

// Connect reaches the shim of a replica's directory and reads its state.
func Connect(ctx context.Context, dir string) (*Client, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", filepath.Join(dir, socketFile))
	if err != nil {
		return nil, err
	}
	c := &Client{conn: conn, in: json.NewDecoder(bufio.NewReader(conn)), out: json.NewEncoder(conn)}
	stop := context.AfterFunc(ctx, func() { conn.SetReadDeadline(time.Unix(1, 0)) })
	var m message
	err = c.in.Decode(&m)
	if !stop() {
		err = errors.Join(ctx.Err(), err)
	}
	if err == nil && (m.Kind != msgState || m.State == nil) {
		err = fmt.Errorf("unexpected first message %q", m.Kind)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("shim in %s does not answer: %w", dir, err), conn.Close())
	}
	c.state = *m.State
	return c, nil
}

// State is what the shim said of itself when the client connected.
func (c *Client) State() State { return c.state }

// Follow asks for the last n lines and for all that come.
func (c *Client) Follow(n int) error { return c.send(request{Op: opFollow, Tail: n}) }

// Stop asks for an orderly end: SIGTERM to the main process, after grace to its group, then SIGKILL.
func (c *Client) Stop(grace time.Duration) error { return c.send(request{Op: opStop, Grace: grace}) }

// Kill asks for an end at once.
func (c *Client) Kill() error { return c.send(request{Op: opKill}) }

func (c *Client) send(r request) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.conn.SetWriteDeadline(time.Now().Add(writeLimit)); err != nil {
		return err
	}
	return c.out.Encode(r)
}

// Next waits for the next notice. An error means that the shim is gone or was let go of; unless a notice said Gone
// before, the engine's tree may still live, and Reap must be called.
func (c *Client) Next() (Notice, error) {
	for {
		var m message
		if err := c.in.Decode(&m); err != nil {
			return Notice{}, err
		}
		switch {
		case m.Kind == msgLine && m.Line != nil:
			return Notice{Line: m.Line}, nil
		case m.Kind == msgExited && m.Exit != nil:
			return Notice{Exited: m.Exit}, nil
		case m.Kind == msgStuck:
			return Notice{Stuck: m.PIDs}, nil
		case m.Kind == msgGone && m.Exit != nil:
			return Notice{Gone: true, Exited: m.Exit}, nil
		}
	}
}

// Close lets go of the shim and leaves it and its engine running.
func (c *Client) Close() error { return c.conn.Close() }

// WaitEnd waits until the shim's process has ended and its locks are free, at most until ctx ends.
func (c *Client) WaitEnd(ctx context.Context) error {
	return waitProcess(ctx, c.state.ShimPID, c.state.ShimStart)
}

// waitProcess waits for the end of a process that need not be a child.
func waitProcess(ctx context.Context, pid int, start uint64) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil { // no pidfd before Linux 5.3
		fd = -1
	} else {
		defer unix.Close(fd)
	}
	const look = 20 * time.Millisecond
	for proc.Is(pid, start) {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("process %d still runs: %w", pid, err)
		}
		// With fd -1 poll is a plain wait. A short one, so that ctx is looked at.
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(look.Milliseconds()))
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
	}
	return nil
}
