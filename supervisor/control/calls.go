package control

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
)

// maxLine bounds one NDJSON line: a status with thousands of sessions stays well under it.
const maxLine = 64 << 20

// Version says which daemon answers.
func (c *Client) Version(ctx context.Context) (v Version, err error) {
	err = c.call(ctx, http.MethodGet, "/v1/version", nil, &v)
	return v, err
}

// Status returns one snapshot.
func (c *Client) Status(ctx context.Context) (s Status, err error) {
	err = c.call(ctx, http.MethodGet, "/v1/status", nil, &s)
	return s, err
}

// Config returns the daemon's effective configuration.
func (c *Client) Config(ctx context.Context) (cfg Config, err error) {
	err = c.call(ctx, http.MethodGet, "/v1/config", nil, &cfg)
	return cfg, err
}

// SetAffinity turns the stickiness of one model on or off; the next request already follows it.
func (c *Client) SetAffinity(ctx context.Context, model string, on bool) (change AffinityChange, err error) {
	req := affinityRequest{Mode: "off"}
	if on {
		req.Mode = "on"
	}
	err = c.call(ctx, http.MethodPut, "/v1/models/"+url.PathEscape(model)+"/affinity", req, &change)
	return change, err
}

// SetPolicy gives one model one of the Policy constants; the next request already follows it.
func (c *Client) SetPolicy(ctx context.Context, model, policy string) (change AffinityChange, err error) {
	err = c.call(ctx, http.MethodPut, "/v1/models/"+url.PathEscape(model)+"/affinity", affinityRequest{Mode: policy}, &change)
	return change, err
}

// SetSpillLimit sets one model's spill limit in requests in flight; 0 makes it automatic.
func (c *Client) SetSpillLimit(ctx context.Context, model string, limit int) (change SpillChange, err error) {
	err = c.call(ctx, http.MethodPut, "/v1/models/"+url.PathEscape(model)+"/spill", spillRequest{&limit}, &change)
	return change, err
}

// Replica gives one replica an order and returns once it is taken.
func (c *Client) Replica(ctx context.Context, id string, action ReplicaAction) (a Accepted, err error) {
	err = c.call(ctx, http.MethodPost, "/v1/replicas/"+url.PathEscape(id)+"/"+url.PathEscape(string(action)), nil, &a)
	return a, err
}

// Shutdown orders the daemon to end; Watch tells when it has.
func (c *Client) Shutdown(ctx context.Context, req ShutdownRequest) error {
	return c.call(ctx, http.MethodPost, "/v1/shutdown", req, nil)
}

// Watch yields a snapshot, then what happens. The sequence ends without an error when the daemon closes the stream
// (it is going away), and with one when the connection or ctx ends.
func (c *Client) Watch(ctx context.Context) iter.Seq2[Message, error] {
	return lines[Message](ctx, c, "/v1/events")
}

// Upgrade orders the daemon to hand over to a new process of its program, and returns once that is ready to take over.
func (c *Client) Upgrade(ctx context.Context) (next Upgraded, err error) {
	err = c.call(ctx, http.MethodPost, "/v1/upgrade", nil, &next)
	return next, err
}

// Logs yields log lines until the query is satisfied, or with Follow until ctx ends.
func (c *Client) Logs(ctx context.Context, q LogQuery) iter.Seq2[LogLine, error] {
	path := "/v1/logs"
	if v := q.values(); len(v) > 0 {
		path += "?" + v.Encode()
	}
	return func(yield func(LogLine, error) bool) {
		for line, err := range lines[LogLine](ctx, c, path) {
			if err == nil && line.Error != nil {
				yield(LogLine{}, line.Error)
				return
			}
			if !yield(line, err) {
				return
			}
		}
	}
}

// lines reads an NDJSON answer.
func lines[T any](ctx context.Context, c *Client, path string) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var zero T
		resp, err := c.send(ctx, http.MethodGet, path, nil)
		if err != nil {
			yield(zero, err)
			return
		}
		defer resp.Body.Close()
		scan := bufio.NewScanner(resp.Body)
		scan.Buffer(make([]byte, 0, 64<<10), maxLine)
		for scan.Scan() {
			var v T
			if err := json.Unmarshal(scan.Bytes(), &v); err != nil {
				yield(zero, fmt.Errorf("cannot read a line of %s: %w", path, err))
				return
			}
			if !yield(v, nil) {
				return
			}
		}
		if err := scan.Err(); err != nil && !errors.Is(err, io.EOF) {
			yield(zero, c.explain(ctx, err))
		}
	}
}
