package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lm-warden/warden/router/pump"
)

// never is a client that does not leave.
type never struct{}

func (never) Control(func(uintptr)) error { return net.ErrClosed }

func nobody() {}

// In a pump an answer is the same, piece by piece, whatever its framing and
// wherever it was left, and its connection can be used again as always.
func TestEach(t *testing.T) {
	const head, chunkedHead = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	tests := map[string]struct {
		answer []string // the rest is said once the first has been seen
		want   string
		err    error
		again  bool // the connection is used again
	}{
		"sized":                  {[]string{head + "abc", "def"}, "abcdef", io.EOF, true},
		"sized, at once":         {[]string{head + "abcdef"}, "abcdef", io.EOF, true},
		"chunks":                 {[]string{chunkedHead + "3\r\nabc\r\n", "3\r\nd", "ef\r\n0\r\n\r\n"}, "abcdef", io.EOF, true},
		"chunks, their end late": {[]string{chunkedHead + "6\r\nabcdef\r\n", "1\r\ng\r\n0\r", "\n\r\n"}, "abcdefg", io.EOF, true},
		"more than asked for":    {[]string{head + "abc", "defg"}, "abcdef", io.EOF, false},
		"cut":                    {[]string{chunkedHead + "3\r\nabc\r\n", "3\r\nd"}, "abcd", io.ErrUnexpectedEOF, false},
		"no chunks":              {[]string{chunkedHead + "3\r\nabc\r\n", "1\r\nd\r\nzz\r\n"}, "abcd", errChunks, false},
		"until it is closed":     {[]string{"HTTP/1.1 200 OK\r\n\r\nabc", "def"}, "abcdef", io.EOF, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var p pump.Pump
			defer p.Close()
			seen := make(chan struct{}, 10)
			conns := make(chan int, 10)
			l := engine(t, func(n int, s *server) {
				for s.read() != nil {
					conns <- n
					for i, text := range tt.answer {
						s.say(text)
						if i == 0 && len(tt.answer) > 1 {
							<-seen
						}
					}
					if !tt.again {
						return
					}
				}
			})
			for round := range 2 {
				a, err := l.Send(t.Context(), get)
				if err != nil {
					t.Fatal(err)
				}
				if !a.Release(&p) {
					t.Fatal("a socket was not released")
				}
				var got strings.Builder
				for err == nil {
					err = a.Each(&p, never{}, nobody, func(piece []byte) (more bool) {
						if got.Len() == 0 {
							seen <- struct{}{}
						}
						got.Write(piece)
						return round == 0 // in the other round it stops after each
					})
				}
				if got.String() != tt.want || !errors.Is(err, tt.err) {
					t.Errorf("%q, %v; want %q, %v", got.String(), err, tt.want, tt.err)
				}
				a.Close()
				if n := <-conns; (n == 1) != (round == 0 || tt.again) {
					t.Errorf("request %d came over connection %d", round+1, n)
				}
			}
		})
	}
}

// The end of a request's context cuts its own connection and no other, whatever
// the answer is doing, and no descriptor is lost.
func TestContextsEndAmongOthers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "e.sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		for range 5 {
			_, _ = fmt.Fprintf(w, "%s ", req.URL.Path)
			_ = http.NewResponseController(w).Flush()
		}
	})}
	var served sync.WaitGroup
	served.Go(func() { _ = server.Serve(listener) })
	var p pump.Pump
	l := New("unix:"+path, Dial, nil)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	before := files(t)
	var all sync.WaitGroup
	for w := range 8 {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 1))
			for i := range 500 {
				ctx, cancel := context.WithCancel(t.Context())
				ends := rng.IntN(2) == 0
				if ends {
					time.AfterFunc(time.Duration(rng.IntN(300))*time.Microsecond, cancel)
				}
				name := fmt.Sprintf("/%d-%d ", w, i)
				a, err := l.Send(ctx, &Request{Method: "GET", Target: strings.TrimSpace(name)})
				var got strings.Builder
				if err == nil {
					for err == nil {
						err = a.Each(&p, never{}, cancel, func(piece []byte) bool { got.Write(piece); return true })
					}
					a.Close()
				}
				if want := strings.Repeat(name, 5); !strings.HasPrefix(want, got.String()) || !ends && (got.String() != want || err != io.EOF) {
					t.Errorf("%q of %q, %v", got.String(), want, err)
				}
				cancel()
			}
		})
	}
	all.Wait()
	l.Close()
	_ = server.Close()
	served.Wait()
	if now := files(t); now > before {
		t.Errorf("%d files became %d", before, now)
	}
	p.Close()
}

func files(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// What is no socket stays as it is, and is read all the same.
func TestEachOfWhatIsNoSocket(t *testing.T) {
	here, there := net.Pipe()
	l := New("unix:/x", func(context.Context, string) (net.Conn, error) { return here, nil }, nil)
	defer l.Close()
	go func() {
		s := &server{Conn: there}
		_, _ = there.Read(make([]byte, 4<<10))
		s.say("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n")
		s.say("abc")
	}()
	a, err := l.Send(t.Context(), get)
	if err != nil {
		t.Fatal(err)
	}
	var p pump.Pump
	defer p.Close()
	if a.Release(&p) {
		t.Error("a pipe was released")
	}
	var got strings.Builder
	if err := a.Each(&p, never{}, nobody, func(piece []byte) bool { got.Write(piece); return true }); err != io.EOF || got.String() != "abc" {
		t.Errorf("%q, %v", got.String(), err)
	}
}
