package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// maxErrorBody bounds what is read of a refusal.
const maxErrorBody = 64 << 10

// Client talks to one daemon. All methods may be called from any goroutine; Close when done.
type Client struct {
	socket string
	http   *http.Client
}

// patience is how long a daemon may take to answer a client that has just come. A busy one needs milliseconds; one
// that looks at sick GPUs for its start may need longer, and the client is told to try again.
const patience = 5 * time.Second

// listenAgain is the pause between looks for a daemon that lives and does not listen: it is about to take over, to
// make its socket anew, or to end.
const listenAgain = 20 * time.Millisecond

// Dial returns a client once the daemon on socket has answered. It returns *NoDaemonError when there is none,
// *SilentError when it lives and does not answer, *PermissionError when the socket is another user's, and
// *PlaceError when the path is too long for one. ctx may bound the wait further.
func Dial(ctx context.Context, socket string) (*Client, error) { return dial(ctx, socket, patience) }

func dial(ctx context.Context, socket string, patience time.Duration) (*Client, error) {
	if err := checkLength(socket); err != nil {
		return nil, err
	}
	c := newClient(socket)
	answer, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	lost := false
	for {
		_, err := c.Version(answer)
		if err == nil {
			return c, nil
		}
		if answer.Err() == nil && !refused(err) {
			lost = holder(socket) != 0
		}
		if lost {
			select {
			case <-answer.Done():
			case <-time.After(listenAgain):
				continue
			}
		}
		c.Close()
		if answer.Err() != nil && ctx.Err() == nil {
			return nil, silent(socket, lost, patience)
		}
		return nil, err
	}
}

// refused says whether somebody is there who does not want this client. Any other failure may be a daemon that ends
// or hands over: it closes connections that it has not looked at.
func refused(err error) bool {
	var answer *Error
	return errors.As(err, &answer) || errors.Is(err, fs.ErrPermission)
}

func newClient(socket string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}
	return &Client{socket: socket, http: &http.Client{Transport: &http.Transport{DialContext: dial, DisableCompression: true}}}
}

// Close ends idle connections. Streams end with their own context.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Socket is the path that was dialled.
func (c *Client) Socket() string { return c.socket }

// call sends one request and decodes the answer into out, unless out is nil.
func (c *Client) call(ctx context.Context, method, path string, in, out any) error {
	resp, err := c.send(ctx, method, path, in)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if out == nil {
		_, err = io.Copy(io.Discard, resp.Body) // so that the connection can be used again
	} else {
		err = json.NewDecoder(resp.Body).Decode(out)
	}
	if err != nil {
		return fmt.Errorf("cannot read the daemon's answer to %s %s: %w", method, path, err)
	}
	return nil
}

// send returns an answer of 2xx, or the refusal as an error.
func (c *Client) send(ctx context.Context, method, path string, in any) (*http.Response, error) {
	var body io.Reader
	if in != nil {
		raw, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://warden"+path, body)
	if err != nil {
		return nil, err
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.explain(ctx, err)
	}
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, refusal(resp)
}

// refusal turns an answer outside 2xx into an error.
func refusal(resp *http.Response) error {
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	if err != nil {
		return fmt.Errorf("cannot read the daemon's refusal (%s): %w", resp.Status, err)
	}
	var e errorBody
	if json.Unmarshal(raw, &e) != nil || e.Error == nil || e.Error.Message == "" {
		return &Error{Code: CodeInternal, Message: "the daemon answered " + resp.Status}
	}
	return e.Error
}

// explain gives a failed dial its meaning.
func (c *Client) explain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("the daemon on %s did not answer in time: %w", c.socket, ctx.Err())
	}
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ECONNREFUSED), errors.Is(err, unix.ENOTSOCK):
		return &NoDaemonError{Socket: c.socket}
	case errors.Is(err, fs.ErrPermission):
		return &PermissionError{Socket: c.socket, Owner: ownerOf(c.socket)}
	}
	var wrapped *url.Error // its own text repeats the made-up URL
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	return fmt.Errorf("cannot talk to the daemon on %s: %w", c.socket, err)
}

func ownerOf(path string) int {
	info, err := os.Stat(path)
	if err != nil {
		return -1
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return -1
	}
	return int(st.Uid)
}
