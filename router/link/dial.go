package link

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"
)

// dialTimeout bounds connecting: engines are on this machine, or near it.
const dialTimeout = 3 * time.Second

// Dialer connects to an address in the form of Dial.
type Dialer func(ctx context.Context, address string) (net.Conn, error)

// Dial connects to unix:/path or http://host:port.
func Dial(ctx context.Context, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	var d net.Dialer
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		return d.DialContext(ctx, "unix", path)
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" || u.Host == "" {
		return nil, fmt.Errorf("replica address %q is neither unix:/path nor http://host:port", address)
	}
	return d.DialContext(ctx, "tcp", u.Host)
}

// dialError: nothing was sent, because no connection could be made.
type dialError struct{ err error }

func (e *dialError) Error() string { return e.err.Error() }
func (e *dialError) Unwrap() error { return e.err }

// NotConnected reports whether err means that no connection could be made.
func NotConnected(err error) bool {
	var d *dialError
	return errors.As(err, &d)
}

// ownLimits are what this process or its machine may have run out of.
var ownLimits = []syscall.Errno{
	syscall.EMFILE, syscall.ENFILE, // descriptors
	syscall.ENOSPC, // watches of epoll (fs.epoll.max_user_watches)
	syscall.ENOMEM, syscall.ENOBUFS,
	syscall.EADDRNOTAVAIL, // ports
}

// Own reports whether err is a limit of this process or its machine: it says
// nothing of the engine, and another one could be reached no better.
func Own(err error) bool {
	return slices.ContainsFunc(ownLimits, func(e syscall.Errno) bool { return errors.Is(err, e) })
}
