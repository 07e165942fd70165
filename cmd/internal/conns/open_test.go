package conns

import (
	"context"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

func TestOpenWait(t *testing.T) {
	idle, busy := &net.TCPConn{}, &net.UDPConn{}
	tests := []struct {
		name   string
		events func(c *Open, hurry chan struct{})
		want   time.Duration
	}{
		{"the last one closes", func(c *Open, _ chan struct{}) {
			time.Sleep(time.Second) // virtual
			c.Track(busy, http.StateIdle)
			c.Track(idle, http.StateClosed)
			time.Sleep(time.Second)
			c.Track(busy, http.StateClosed)
		}, 2 * time.Second},
		{"hurried while one is busy", func(c *Open, hurry chan struct{}) {
			close(hurry)
			time.Sleep(3 * time.Second)
			c.Track(busy, http.StateIdle)
		}, 3 * time.Second},
		{"never", func(*Open, chan struct{}) {}, time.Minute},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, hurry := NewOpen(), make(chan struct{})
				c.Track(idle, http.StateIdle)
				c.Track(busy, http.StateActive)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				began := time.Now()
				go tt.events(c, hurry)
				c.Wait(ctx, hurry)
				if took := time.Since(began); took != tt.want {
					t.Errorf("waited %s, want %s", took, tt.want)
				}
			})
		})
	}
}
