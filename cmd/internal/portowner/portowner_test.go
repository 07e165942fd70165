package portowner

import (
	"net"
	"os"
	"testing"
)

func TestFindsThisProcess(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Logf("no %s on this machine: %v", address, err)
			continue
		}
		port := l.Addr().(*net.TCPAddr).Port
		owner, ok := Find(port)
		if !ok || owner.PID != os.Getpid() || owner.Name == "" {
			t.Errorf("%s: %+v, %v; want pid %d", address, owner, ok, os.Getpid())
		}
		l.Close()
		if owner, ok := Find(port); ok {
			t.Errorf("%s: still found after close: %v", address, owner)
		}
	}
}

func TestListenerLines(t *testing.T) {
	for _, tc := range []struct {
		line string
		want bool
	}{
		{"   0: 0100007F:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 12345 1", true},
		{"   0: 0100007F:1F40 0100007F:9999 01 00000000:00000000 00:00000000 00000000  1000        0 12345 1", false},
		{"   0: 0100007F:1F41 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 12345 1", false},
		{"  sl  local_address rem_address   st", false},
		{"", false},
	} {
		if _, ok := listener(tc.line, 8000); ok != tc.want {
			t.Errorf("%q: %v", tc.line, ok)
		}
	}
}
