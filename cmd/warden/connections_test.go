package main

import (
	"context"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

func TestConnectionsWait(t *testing.T) {
	idle, busy := &net.TCPConn{}, &net.UDPConn{}
	tests := []struct {
		name   string
		events func(c *connections, hurry chan struct{})
		want   time.Duration
	}{
		{"the last one closes", func(c *connections, _ chan struct{}) {
			time.Sleep(time.Second) // virtual
			c.track(busy, http.StateIdle)
			c.track(idle, http.StateClosed)
			time.Sleep(time.Second)
			c.track(busy, http.StateClosed)
		}, 2 * time.Second},
		{"hurried while one is busy", func(c *connections, hurry chan struct{}) {
			close(hurry)
			time.Sleep(3 * time.Second)
			c.track(busy, http.StateIdle)
		}, 3 * time.Second},
		{"never", func(*connections, chan struct{}) {}, time.Minute},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, hurry := newConnections(), make(chan struct{})
				c.track(idle, http.StateIdle)
				c.track(busy, http.StateActive)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				began := time.Now()
				go tt.events(c, hurry)
				c.wait(ctx, hurry)
				if took := time.Since(began); took != tt.want {
					t.Errorf("waited %s, want %s", took, tt.want)
				}
			})
		})
	}
}
