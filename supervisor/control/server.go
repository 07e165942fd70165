package control

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/lm-warden/warden/supervisor/events"
)

const (
	defaultHeartbeat    = time.Second
	defaultWriteTimeout = 10 * time.Second // a reader that takes nothing for this long is cut off
	defaultMaxStreams   = 64               // event and log streams at once
	headerTimeout       = 5 * time.Second
	idleTimeout         = 60 * time.Second
	closeTimeout        = 2 * time.Second
	maxBody             = 64 << 10
	defaultLookEach     = 2 * time.Second // so long can a socket be gone that something removed
	eventQueue          = 256             // per watcher, then the oldest are dropped and a snapshot follows
	recentEvents        = 200             // sent with each snapshot
)

// ServerOptions configure Listen. Socket, Daemon and Bus are required.
type ServerOptions struct {
	Socket       string
	Daemon       Daemon
	Bus          *events.Bus
	Log          *slog.Logger  // nil = silent
	Heartbeat    time.Duration // 0 = 1 s
	WriteTimeout time.Duration // 0 = 10 s
	MaxStreams   int           // 0 = 64
	Lock         *os.File      // of the daemon that this one takes over from; nil = take it. It is closed, also on failure

	lookEach time.Duration                // 0 = 2 s; how often Serve looks for its socket
	peerOf   func(net.Conn) (peer, error) // tests pretend to be another user
}

func (o *ServerOptions) fill() {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Heartbeat <= 0 {
		o.Heartbeat = defaultHeartbeat
	}
	if o.WriteTimeout <= 0 {
		o.WriteTimeout = defaultWriteTimeout
	}
	if o.MaxStreams <= 0 {
		o.MaxStreams = defaultMaxStreams
	}
	if o.lookEach <= 0 {
		o.lookEach = defaultLookEach
	}
	if o.peerOf == nil {
		o.peerOf = peerOf
	}
}

// Server is the daemon's end of the socket.
type Server struct {
	opts    ServerOptions
	uid     uint32
	place   place
	http    *http.Server
	cancel  context.CancelFunc
	streams chan struct{} // one token per stream in progress

	inside sync.RWMutex // held for reading by each handler, so that Close can wait for the last
	closed bool         // guarded by inside
	once   sync.Once
}

// Listen takes the socket, or returns *AlreadyRunningError. Nothing is answered before Serve.
func Listen(opts ServerOptions) (*Server, error) {
	if opts.Daemon == nil || opts.Bus == nil {
		return nil, errors.New("control server needs a Daemon and a Bus")
	}
	opts.fill()
	ln, lock, err := claim(opts.Socket, opts.Lock)
	if err != nil {
		return nil, err
	}
	base, cancel := context.WithCancel(context.Background())
	s := &Server{
		opts: opts, uid: uint32(os.Geteuid()), place: place{ln: ln, lock: lock}, cancel: cancel,
		streams: make(chan struct{}, opts.MaxStreams),
	}
	s.http = &http.Server{
		Handler:           s.guard(s.routes()),
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxBody,
		BaseContext:       func(net.Listener) context.Context { return base },
		ConnContext:       s.identify,
		ErrorLog:          slog.NewLogLogger(opts.Log.Handler(), slog.LevelDebug),
	}
	return s, nil
}

// Socket is the path that clients dial.
func (s *Server) Socket() string { return s.opts.Socket }

// Serve answers until ctx ends or Close is called; when it returns, no handler is running.
func (s *Server) Serve(ctx context.Context) error {
	stop := context.AfterFunc(ctx, s.Close)
	defer stop()
	looking, cancel := context.WithCancel(ctx)
	looked := make(chan struct{})
	go func() {
		defer close(looked)
		s.keepPlace(looking)
	}()
	err := s.serveAll()
	s.Close()
	cancel()
	<-looked
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Lock is what a daemon that takes over inherits. It is held until both have closed it, so that nobody takes the
// moment between them for the end of the daemon. A socket that is made anew has another one.
func (s *Server) Lock() *os.File { return s.place.file() }

// CloseFor is Close for a server that another process, which has inherited the lock, follows.
func (s *Server) CloseFor(pid int) error {
	s.place.settle()
	err := writePID(s.place.file(), pid)
	s.Close()
	return err
}

// Close ends all streams, removes the socket and waits for the handlers. Closing twice is harmless.
func (s *Server) Close() {
	s.once.Do(func() {
		s.cancel()
		s.place.settle()
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		if s.http.Shutdown(ctx) != nil {
			s.http.Close() // a reader that takes nothing
		}
		s.place.listener().Close() // not yet known to http.Server when Serve was never called
		s.inside.Lock()
		s.closed = true
		s.inside.Unlock()
		s.place.unlock() // last: only now may another daemon start
	})
}

type peerKey struct{}

// identify remembers who is at the other end of a connection, or nothing.
func (s *Server) identify(ctx context.Context, conn net.Conn) context.Context {
	p, err := s.opts.peerOf(conn)
	if err != nil {
		s.opts.Log.Warn("cannot identify a control client", "err", err)
		return ctx
	}
	return context.WithValue(ctx, peerKey{}, p)
}

// guard lets in whom the access rule allows, and bounds the request.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.inside.RLock()
		defer s.inside.RUnlock()
		if s.closed {
			return
		}
		p, known := r.Context().Value(peerKey{}).(peer)
		if !known || !allowed(p, s.uid) {
			s.opts.Log.Warn("control client refused", "uid", p.uid, "pid", p.pid, "known", known)
			writeError(w, &Error{Code: CodeForbidden, Message: "this socket serves its owner and root only",
				Hint: (&PermissionError{Owner: int(s.uid)}).Hint()})
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.opts.WriteTimeout)); err != nil {
			s.opts.Log.Debug("cannot bound a control answer", "err", err)
		}
		next.ServeHTTP(w, r)
	})
}
