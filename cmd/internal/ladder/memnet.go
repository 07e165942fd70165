package ladder

import (
	"context"
	"fmt"
	"net"
	"sync"
)

// network connects names inside the process. Its waits are channels, not
// system calls, so that connections work in virtual time.
type network struct {
	mu        sync.Mutex
	listeners map[string]*listener
}

// listener accepts the connections to one name.
type listener struct {
	name  string
	conns chan net.Conn
	done  chan struct{}
	close func()
}

func (n *network) listen(name string) *listener {
	l := &listener{name: name, conns: make(chan net.Conn), done: make(chan struct{})}
	l.close = sync.OnceFunc(func() { close(l.done) })
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listeners == nil {
		n.listeners = map[string]*listener{}
	}
	n.listeners[name] = l
	return l
}

// dial has the form of router.Options.Dial.
func (n *network) dial(ctx context.Context, name string) (net.Conn, error) {
	n.mu.Lock()
	l := n.listeners[name]
	n.mu.Unlock()
	if l == nil {
		return nil, fmt.Errorf("nobody listens on %q", name)
	}
	here, there := net.Pipe()
	select {
	case l.conns <- there:
		return here, nil
	case <-l.done:
		return nil, fmt.Errorf("%q has stopped listening", name)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept, Close and Addr implement net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error   { l.close(); return nil }
func (l *listener) Addr() net.Addr { return memAddr(l.name) }

type memAddr string

func (memAddr) Network() string  { return "memory" }
func (a memAddr) String() string { return string(a) }
