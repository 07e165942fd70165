// Package servicetest stands for systemd in tests.
package servicetest

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Socket is systemd's end of NOTIFY_SOCKET.
type Socket struct {
	Path string
	Seen []string // all lines that came

	t    testing.TB
	conn *net.UnixConn
}

// Listen makes the socket in dir, until the test ends.
func Listen(t testing.TB, dir string) *Socket {
	t.Helper()
	path := filepath.Join(dir, "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &Socket{t: t, Path: path, conn: conn}
}

// Expect reads until a line with this prefix comes.
func (n *Socket) Expect(prefix string) string {
	n.t.Helper()
	buf := make([]byte, 4096)
	if err := n.conn.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		n.t.Fatal(err)
	}
	for {
		size, err := n.conn.Read(buf)
		if err != nil {
			n.t.Fatalf("no %s: %v; came %q", prefix, err, n.Seen)
		}
		lines := strings.Split(string(buf[:size]), "\n")
		n.Seen = append(n.Seen, lines...)
		for _, line := range lines {
			if strings.HasPrefix(line, prefix) {
				return line
			}
		}
	}
}
