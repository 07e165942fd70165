package conns

import (
	"context"
	"net"
	"net/http"
	"sync"
)

// Open counts the open connections of a server that accepts no new ones.
type Open struct {
	mu     sync.Mutex
	states map[net.Conn]http.ConnState
	fewer  chan struct{} // holds a token after a change
}

// NewOpen counts from none.
func NewOpen() *Open {
	return &Open{states: map[net.Conn]http.ConnState{}, fewer: make(chan struct{}, 1)}
}

// Track is an http.Server's ConnState.
func (c *Open) Track(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateClosed, http.StateHijacked:
		delete(c.states, conn)
	default:
		c.states[conn] = state
	}
	select {
	case c.fewer <- struct{}{}:
	default:
	}
}

// count returns how many are open, and how many of them serve a request.
func (c *Open) count() (open, active int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, state := range c.states {
		if state == http.StateActive {
			active++
		}
	}
	return len(c.states), active
}

// Wait returns when no connection is left, or none that serves a request once
// hurry is closed, or when ctx ends. Only one caller at a time.
func (c *Open) Wait(ctx context.Context, hurry <-chan struct{}) {
	hurried := false
	for {
		open, active := c.count()
		if open == 0 || hurried && active == 0 {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-hurry:
			hurry, hurried = nil, true
		case <-c.fewer:
		}
	}
}
