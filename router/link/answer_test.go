package link

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
)

// Answers as engines write them, and as they break off.
func TestAnswers(t *testing.T) {
	for _, c := range []struct {
		name, method, sent string
		status             int
		body               string
		err                error // of reading the body
		reused             bool
	}{
		{"sized", "POST", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nA: b\r\n\r\nhello", 200, "hello", nil, true},
		{"two equal lengths", "POST", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello", 200, "hello", nil, true},
		{"empty", "POST", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, "", nil, true},
		{"chunked", "POST", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6;x=y\r\n world\r\n0\r\n\r\n", 200, "hello world", nil, true},
		{"chunked with trailer", "POST", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: A\r\n\r\n5\r\nhello\r\n0\r\nA: b\r\nC: d\r\n\r\n", 200, "hello", nil, true},
		{"until the end", "POST", "HTTP/1.1 200 OK\r\n\r\nhello", 200, "hello", nil, false},
		{"HTTP/1.0", "POST", "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, "hello", nil, false},
		{"closing", "POST", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello", 200, "hello", nil, false},
		{"provisional answers first", "POST", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, "hello", nil, true},
		{"HEAD", "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", 200, "", nil, true},
		{"no content", "POST", "HTTP/1.1 204 No Content\r\n\r\n", 204, "", nil, true},
		{"packed", "POST", "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n\x1f\x8b", 200, "\x1f\x8b", nil, true},
		{"an error", "POST", "HTTP/1.1 503 No\r\nContent-Length: 2\r\n\r\nno", 503, "no", nil, true},
		{"more than was asked for", "POST", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhello", 200, "he", nil, false},

		{"sized, cut", "POST", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", 200, "hello", io.ErrUnexpectedEOF, false},
		{"chunked, cut in a chunk", "POST", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhello", 200, "hello", io.ErrUnexpectedEOF, false},
		{"chunked, cut between chunks", "POST", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", 200, "hello", io.ErrUnexpectedEOF, false},
		{"chunked, cut in its end", "POST", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n", 200, "hello", io.ErrUnexpectedEOF, false},
		{"chunked, wrong", "POST", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloX", 200, "hello", errChunks, false},
		{"chunked, bare line feeds", "POST", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\nhello\n0\n\n", 200, "", errChunks, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			served := make(chan bool, 2) // whether a second request came on the connection
			l := engine(t, func(n int, s *server) {
				if s.read() == nil {
					return
				}
				s.say(c.sent)
				if c.err != nil || !c.reused && !strings.Contains(c.sent, "Content-Length: 2\r\n") {
					return
				}
				served <- s.read() != nil
			})
			req := *post
			req.Method = c.method
			a, err := l.Send(t.Context(), &req)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(a)
			a.Close()
			if a.Status != c.status || string(body) != c.body || !errors.Is(err, c.err) {
				t.Errorf("%d %q %v", a.Status, body, err)
			}
			l.mu.Lock()
			kept := len(l.idle.conns)
			l.mu.Unlock()
			if kept == 1 != c.reused {
				t.Errorf("%d connections are kept", kept)
			}
			if !c.reused {
				return
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				if again := <-served; !again {
					t.Error("the second request did not come on the same connection")
				}
				cancel()
			}()
			if a, err := l.Send(ctx, get); err == nil {
				a.Close()
			}
		})
	}
}

// What is not HTTP is an error before anything is believed of it.
func TestWrongHeads(t *testing.T) {
	for _, sent := range []string{
		"", "HTTP/1.1 200 OK\r\nContent-Le", "SSH-2.0-x\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
		"HTTP/1.1 200 OK\r\nA: " + strings.Repeat("a", maxHead+bufferSize) + "\r\n\r\n", "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
	} {
		l := engine(t, func(_ int, s *server) {
			if s.read() != nil {
				s.say(sent)
			}
		})
		if a, err := l.Send(t.Context(), post); err == nil {
			t.Errorf("%.60q: %+v", sent, a)
		}
	}
}
