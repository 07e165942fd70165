package socket

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pair returns both ends of a TCP connection; the first is wrapped.
func pair(t *testing.T) (ours, theirs net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	theirs, err = net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	ours, err = Listen(l).Accept()
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := ours.(*conn); !ok {
		t.Fatalf("%T is not wrapped", ours)
	}
	t.Cleanup(func() { _, _ = ours.Close(), theirs.Close() })
	return ours, theirs
}

// What is larger than the kernel's buffers takes many calls and waits between
// them, in both directions at the same time.
func TestCopies(t *testing.T) {
	ours, theirs := pair(t)
	sent := bytes.Repeat([]byte("0123456789abcde\n"), 1<<20) // 16 MiB
	go func() {
		_, _ = io.Copy(theirs, theirs) // an echo
	}()
	wrote := make(chan error, 1)
	go func() {
		n, err := ours.Write(sent)
		if n != len(sent) && err == nil {
			err = errors.New("short")
		}
		wrote <- err
	}()
	got := make([]byte, len(sent))
	if _, err := io.ReadFull(ours, got); err != nil || !bytes.Equal(got, sent) {
		t.Fatal("the echo differs: ", err)
	}
	if err := <-wrote; err != nil {
		t.Fatal(err)
	}
}

// Pieces arrive in their order, more of them than one call takes included.
func TestPieces(t *testing.T) {
	ours, theirs := pair(t)
	var pieces [][]byte
	for i := range 3 * 16 {
		pieces = append(pieces, bytes.Repeat([]byte{byte('a' + i%26)}, i%5))
	}
	want := bytes.Join(pieces, nil)
	for len(pieces) > 0 {
		n := 0
		if err := ours.(*conn).raw.Write(func(fd uintptr) bool {
			var err error
			n, err = Writev(fd, pieces)
			return err != syscall.EAGAIN
		}); err != nil {
			t.Fatal(err)
		}
		for len(pieces) > 0 && n >= len(pieces[0]) {
			n -= len(pieces[0])
			pieces = pieces[1:]
		}
		if n > 0 {
			pieces[0] = pieces[0][n:]
		}
	}
	got := make([]byte, len(want))
	if _, err := io.ReadFull(theirs, got); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%q, want %q, %v", got, want, err)
	}
}

// The end of a connection, and its errors, are those of the one underneath:
// net/http looks at their type and their words.
func TestErrorsAreThoseOfNet(t *testing.T) {
	cases := map[string]func(ours, theirs net.Conn) error{
		"end": func(ours, theirs net.Conn) error {
			_ = theirs.Close()
			_, err := ours.Read(make([]byte, 8))
			return err
		},
		"reset": func(ours, theirs net.Conn) error {
			_ = theirs.(*net.TCPConn).SetLinger(0)
			_ = theirs.Close()
			_, err := ours.Read(make([]byte, 8))
			return err
		},
		"read deadline": func(ours, _ net.Conn) error {
			_ = ours.SetReadDeadline(time.Unix(1, 0))
			_, err := ours.Read(make([]byte, 8))
			return err
		},
		"write deadline": func(ours, _ net.Conn) error {
			_ = ours.SetWriteDeadline(time.Unix(1, 0))
			_, err := ours.Write(make([]byte, 8))
			return err
		},
		"closed": func(ours, _ net.Conn) error {
			_ = ours.Close()
			_, err := ours.Read(make([]byte, 8))
			return err
		},
		"write after closing": func(ours, _ net.Conn) error {
			_ = ours.Close()
			_, err := ours.Write(make([]byte, 8))
			return err
		},
		"write after a reset": func(ours, theirs net.Conn) error {
			_ = theirs.(*net.TCPConn).SetLinger(0)
			_ = theirs.Close()
			_, _ = ours.Read(make([]byte, 8)) // until the reset is there
			_, err := ours.Write(make([]byte, 8))
			return err
		},
	}
	addresses := func(err error) string { // ports differ
		if op, ok := errors.AsType[*net.OpError](err); ok {
			return op.Op + " " + op.Net + " " + op.Err.Error()
		}
		return err.Error()
	}
	for name, fail := range cases {
		t.Run(name, func(t *testing.T) {
			ours, theirs := pair(t)
			got := fail(ours, theirs)
			plain, other := pair(t)
			want := fail(plain.(*conn).Conn, other)
			if addresses(got) != addresses(want) || errors.Is(got, os.ErrDeadlineExceeded) != errors.Is(want, os.ErrDeadlineExceeded) ||
				errors.Is(got, net.ErrClosed) != errors.Is(want, net.ErrClosed) || errors.Is(got, syscall.ECONNRESET) != errors.Is(want, syscall.ECONNRESET) {
				t.Errorf("%v, net has %v", got, want)
			}
		})
	}
}

// A Read that waits ends with the connection, and with its deadline: net/http
// ends its watch for a client's leaving so.
func TestWaitingEnds(t *testing.T) {
	for name, end := range map[string]func(net.Conn) error{
		"close":    net.Conn.Close,
		"deadline": func(c net.Conn) error { return c.SetReadDeadline(time.Unix(1, 0)) },
	} {
		t.Run(name, func(t *testing.T) {
			ours, theirs := pair(t)
			if _, err := io.WriteString(theirs, "a"); err != nil {
				t.Fatal(err)
			}
			ended, begun := make(chan error), make(chan struct{})
			go func() {
				_, _ = ours.Read(make([]byte, 1))
				close(begun)
				_, err := ours.Read(make([]byte, 1))
				ended <- err
			}()
			<-begun
			if err := end(ours); err != nil {
				t.Fatal(err)
			}
			if err := <-ended; err == nil {
				t.Error("no error")
			}
		})
	}
}

func TestOthersStayAsTheyAre(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	if New(a) != a {
		t.Error("a pipe was wrapped")
	}
}

// net/http's server and client are at home on such connections.
func TestServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		_, _ = w.Write(body)
	})}
	served := make(chan error, 1)
	go func() { served <- server.Serve(Listen(l)) }()
	client := &http.Client{Transport: &http.Transport{}}
	body := strings.Repeat("warden ", 1<<18)
	for range 3 {
		resp, err := client.Post("http://"+l.Addr().String(), "text/plain", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		if _ = resp.Body.Close(); err != nil || string(got) != body {
			t.Fatalf("%d bytes of %d, %v", len(got), len(body), err)
		}
	}
	client.CloseIdleConnections()
	_ = server.Close()
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
}

// Neither reading nor writing allocates.
func TestAllocatesNothing(t *testing.T) {
	ours, theirs := pair(t)
	message, got := []byte("an event"), make([]byte, 8)
	if n := testing.AllocsPerRun(100, func() {
		_, _ = theirs.Write(message)
		_, _ = io.ReadFull(ours, got)
		_, _ = ours.Write(got)
		_, _ = io.ReadFull(theirs, got)
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
