package control

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// place is where a server listens: the socket, and the lock beside it. A login session that ends takes
// /run/user/UID along, and cleaners of /tmp remove what looks old: whoever could not be reached any more would hold
// the GPUs for ever, so the server looks for its place and makes it anew.
type place struct {
	mu      sync.Mutex
	ln      *net.UnixListener
	lock    *os.File
	settled bool // no new place any more
}

func (p *place) listener() *net.UnixListener {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ln
}

// settle ends the making of new places. From then on nothing changes the listener, and others may close it.
func (p *place) settle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settled = true
}

// file is the lock, for a daemon that is to take over.
func (p *place) file() *os.File {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lock
}

func (p *place) unlock() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lock.Close()
}

// renew makes missing parts of the place anew, and says whether there were any.
func (p *place) renew(path string) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err := os.Lstat(path)
	if p.settled || !os.IsNotExist(err) {
		return false, nil // also when it cannot be known, or something else is there: that is nothing lost
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return false, fmt.Errorf("cannot make the directory of %s: %w", path, err)
	}
	lock := p.lock
	if !names(path+".lock", lock) {
		if lock, err = lockFor(path); err != nil {
			return false, err // another warden came meanwhile
		}
	}
	ln, err := listenUnix(path)
	if err == nil {
		err = writePID(lock, os.Getpid())
	}
	if err != nil {
		if ln != nil {
			ln.Close()
		}
		if lock != p.lock {
			lock.Close()
		}
		return false, err
	}
	if lock != p.lock {
		p.lock.Close()
	}
	p.ln.SetUnlinkOnClose(false) // the path is the new one's
	p.ln.Close()
	p.ln, p.lock = ln, lock
	return true, nil
}

// names says whether path leads to the open file.
func names(path string, open *os.File) bool {
	a, err := os.Stat(path)
	if err != nil {
		return false
	}
	b, err := open.Stat()
	return err == nil && os.SameFile(a, b)
}

// keepPlace looks for the socket until ctx ends.
func (s *Server) keepPlace(ctx context.Context) {
	tick := time.NewTicker(s.opts.lookEach)
	defer tick.Stop()
	said := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		renewed, err := s.place.renew(s.opts.Socket)
		switch {
		case renewed:
			said = false
			s.opts.Log.Warn("the control socket was removed: made anew", "socket", s.opts.Socket)
		case err != nil && !said:
			said = true // once for each loss
			s.opts.Log.Error("the control socket was removed and cannot be made anew: stop this warden with a signal", "pid", os.Getpid(), "err", err)
		}
	}
}

// serveAll answers on the listener, and on each that replaces it.
func (s *Server) serveAll() error {
	for {
		ln := s.place.listener()
		err := s.http.Serve(ln)
		if s.place.listener() == ln {
			return err
		}
	}
}
