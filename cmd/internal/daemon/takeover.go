package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/lm-warden/warden/cmd/internal/exit"
	"github.com/lm-warden/warden/cmd/internal/handover"
	"github.com/lm-warden/warden/cmd/internal/paths"
	"github.com/lm-warden/warden/supervisor"
)

// A warden that takes over finds its end of the handover, and the lock of the
// control socket, in these descriptors.
const (
	takeoverFD = 3
	lockFD     = 4
)

// predecessor is the warden that this one takes over from.
type predecessor struct {
	link    *handover.Link
	drained chan struct{} // closed when no request is left there
	gone    chan struct{} // closed when its process has ended

	mu   sync.Mutex
	held map[supervisor.ReplicaID]heldWork // what it said last
}

// TakeOver is New for a warden that `warden upgrade` started: see upgrade.go.
// settle says what to serve, and is asked before the warden before lets go of
// anything. What fails until then is told there and ends this process silently;
// without an error and a Daemon the one before has changed its mind.
func TakeOver(settle func() (Options, error)) (*Daemon, error) {
	link, err := handover.On(os.NewFile(takeoverFD, "handover"))
	if err != nil {
		return nil, exit.Fail(exit.Usage, fmt.Errorf("--takeover is for warden itself: %w", err), "`warden upgrade`")
	}
	unix.CloseOnExec(lockFD) // an engine with it would keep the next warden out
	lock := os.NewFile(lockFD, "control lock")
	d, err := succeed(settle, link)
	if reportErr := link.SendReport(exit.ReportOf(err)); err != nil || reportErr != nil {
		link.Close()
		return nil, &exit.Silent{Code: exit.CodeOf(errors.Join(err, reportErr))} // the one before tells it
	}
	if link.Hear() != handover.Go { // the one before changed its mind, or died
		link.Close()
		return nil, d.release()
	}
	d.before = newPredecessor(link, d.NobodyWaits)
	err = d.claim(lock)
	if err == nil {
		err = d.assemble(paths.RuntimeDir(d.cfg.Name))
	}
	if err != nil {
		err = errors.Join(err, d.release())
		d.before.close()
		return nil, err
	}
	return d, nil
}

// succeed does all of a start that can fail before the one before lets go.
func succeed(settle func() (Options, error), link *handover.Link) (*Daemon, error) {
	listener, receiveErr := link.ReceiveListener()
	opts, err := settle()
	if err := errors.Join(receiveErr, err); err != nil {
		return nil, err
	}
	d := empty(opts)
	runtime, err := paths.MakeRuntimeDir(d.cfg.Name)
	if err == nil {
		err = d.prepare(runtime, listener)
	}
	if err != nil {
		return nil, errors.Join(err, d.release())
	}
	return d, nil
}

// newPredecessor listens to what the one before has to say, to its end.
func newPredecessor(link *handover.Link, gone func()) *predecessor {
	p := &predecessor{link: link, drained: make(chan struct{}), gone: make(chan struct{})}
	go func() {
		defer close(p.gone)
		defer gone()
		p.listen()
	}()
	return p
}

func (p *predecessor) listen() {
	for word := p.link.Hear(); word != "" && word != handover.Drained; word = p.link.Hear() {
		if text, ok := strings.CutPrefix(word, handover.Held+" "); ok {
			p.holds(text)
		}
	}
	p.holds("{}")
	close(p.drained)
	for p.link.Hear() != "" { // to its end
	}
}

// drain waits until the one before holds no request, at most until ctx ends:
// the engines that answer them are about to stop.
func (p *predecessor) drain(ctx context.Context) {
	if p == nil {
		return
	}
	_ = p.link.Say(handover.Hurry) // it may be gone
	select {
	case <-p.drained:
	case <-ctx.Done():
	}
}

// await waits like drain, but hurries the one before only when it is hurried
// itself.
func (p *predecessor) await(ctx context.Context, hurry <-chan struct{}) {
	if p == nil {
		return
	}
	select {
	case <-p.drained:
	case <-ctx.Done():
	case <-hurry:
		p.drain(ctx)
	}
}

// close gives the handover back; the one before may be gone or not.
func (p *predecessor) close() {
	if p != nil {
		p.link.Close()
	}
}

// takeListener uses the socket that was passed on, unless the configuration now
// names another address.
func takeListener(address string, passed net.Listener) (net.Listener, error) {
	if passed == nil {
		return listen(address)
	}
	if sameAddress(address, passed.Addr().String()) {
		return passed, nil
	}
	l, err := listen(address)
	return l, errors.Join(err, passed.Close())
}

// sameAddress says whether a configured address may mean the one that a socket
// is bound to: port 0 means any.
func sameAddress(configured, bound string) bool {
	host, port, err := net.SplitHostPort(configured)
	boundHost, boundPort, boundErr := net.SplitHostPort(bound)
	if err != nil || boundErr != nil || port != "0" && port != boundPort {
		return false
	}
	a, b := net.ParseIP(host), net.ParseIP(boundHost)
	switch {
	case host == "" || a != nil && a.IsUnspecified():
		return b != nil && b.IsUnspecified()
	case a == nil: // a name: the socket was bound to one of its addresses
		return b != nil && !b.IsUnspecified()
	}
	return a.Equal(b)
}
