package conns

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener in memory.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p pipes) Close() error   { close(p.done); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// A full crowd gives the place of the connection that has been quiet longest;
// those that serve a request, or have only just come, keep theirs.
func TestQuietConnectionsGiveWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		under := pipes{make(chan net.Conn), make(chan struct{})}
		crowd := NewCrowd(under, 3, slog.New(slog.DiscardHandler))
		got := make(chan net.Conn, 10)
		go func() {
			for {
				conn, err := crowd.Accept()
				if err != nil {
					if !errors.Is(err, net.ErrClosed) {
						t.Error(err)
					}
					return
				}
				got <- conn
			}
		}()
		connect := func() (client, server net.Conn) {
			client, there := net.Pipe()
			under.conns <- there
			synctest.Wait()
			select {
			case server = <-got:
			default:
			}
			return client, server
		}
		closed := func(client net.Conn) bool {
			_ = client.SetReadDeadline(time.Now().Add(time.Millisecond))
			_, err := client.Read(make([]byte, 1))
			var timeout net.Error
			return !(errors.As(err, &timeout) && timeout.Timeout())
		}
		busy, busyThere := connect()
		crowd.Track(tls.Server(busyThere, &tls.Config{}), http.StateActive) // found also under TLS
		used, usedThere := connect()
		crowd.Track(usedThere, http.StateActive)
		silent, _ := connect()
		if extra, there := connect(); there != nil {
			t.Error("a fourth of three was let in at once")
		} else {
			extra.Close()
		}
		<-time.After(quietAfter)
		crowd.Track(usedThere, http.StateIdle) // quiet for less long than silent
		if _, there := connect(); there == nil || !closed(silent) || closed(used) || closed(busy) {
			t.Errorf("in the place of the silent one: let in %v, silent closed %v, used %v, busy %v", there != nil, closed(silent), closed(used), closed(busy))
		}
		<-time.After(quietAfter)
		if _, there := connect(); there == nil || !closed(used) || closed(busy) {
			t.Errorf("in the place of the used one: let in %v, used closed %v, busy %v", there != nil, closed(used), closed(busy))
		}
		if open := crowd.open.Load(); open != 3 {
			t.Errorf("%d count as open", open)
		}
		under.Close()
	})
}

// A request that begins and a place that is wanted meet: one of them gets the
// connection, never both.
func TestARequestIsNotEndedAsQuiet(t *testing.T) {
	crowd := NewCrowd(nil, 1, slog.New(slog.DiscardHandler))
	now := time.Now()
	both := 0
	for range 20_000 {
		here, there := net.Pipe()
		m := &member{Conn: there, of: crowd}
		crowd.open.Add(1)
		crowd.quiet.add(m, now.Add(-time.Hour))
		begun, ended := make(chan bool), make(chan bool)
		go func() { begun <- crowd.quiet.remove(m) }()
		go func() { ended <- crowd.quiet.endOne(now) }()
		served, closed := <-begun, <-ended
		if served && closed {
			both++
		}
		m.Close()
		here.Close()
	}
	if open := crowd.open.Load(); both > 0 || open != 0 {
		t.Errorf("%d requests were ended as quiet connections; %d count as open", both, open)
	}
}

// A connection that was taken for the length of an answer comes back as a new
// one: busy until then, left alone for a moment, and then one like the others.
func TestConnectionsThatComeBackGiveWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		under := pipes{make(chan net.Conn, 1), make(chan struct{})}
		crowd := NewCrowd(under, 1, slog.New(slog.DiscardHandler))
		client, there := net.Pipe()
		under.conns <- there
		m, err := crowd.Accept()
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct {
			state http.ConnState
			after time.Duration
			ended bool
		}{{http.StateActive, time.Hour, false}, {http.StateActive, time.Hour, false}, {http.StateNew, 0, false}, {http.StateNew, quietAfter, true}} {
			crowd.Track(m, step.state)
			<-time.After(step.after)
			if ended := crowd.quiet.endOne(time.Now()); ended != step.ended {
				t.Errorf("%s after %v: ended %v", step.state, step.after, ended)
			}
		}
		if _, err := client.Read(make([]byte, 1)); err == nil || crowd.open.Load() != 0 {
			t.Errorf("it is open: %v, %d", err, crowd.open.Load())
		}
	})
}
