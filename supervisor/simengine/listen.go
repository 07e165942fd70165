package simengine

import (
	"fmt"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// socket is bound but does not listen yet: vLLM binds first, loads, and
// listens last. Until then connections are refused, and another engine on the
// same path or port fails at once.
type socket struct {
	fd      int
	address string
}

const listenBacklog = 2048 // uvicorn's

func bind(c *config) (*socket, error) {
	if c.uds != "" {
		return bindTo(unix.AF_UNIX, &unix.SockaddrUnix{Name: c.uds}, "unix:"+c.uds)
	}
	host := c.host
	if host == "" {
		host = "0.0.0.0"
	}
	if host == "localhost" {
		host = "127.0.0.1"
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return nil, fmt.Errorf("--host %s is no IP address: %w", host, err)
	}
	address := fmt.Sprintf("http://%s", netip.AddrPortFrom(ip, uint16(c.port)))
	if ip.Is4() {
		return bindTo(unix.AF_INET, &unix.SockaddrInet4{Port: c.port, Addr: ip.As4()}, address)
	}
	return bindTo(unix.AF_INET6, &unix.SockaddrInet6{Port: c.port, Addr: ip.As16()}, address)
}

func bindTo(family int, to unix.Sockaddr, address string) (*socket, error) {
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("socket for %s: %w", address, err)
	}
	if family != unix.AF_UNIX {
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	}
	if err == nil {
		err = unix.Bind(fd, to)
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("bind %s: %w", address, err)
	}
	return &socket{fd: fd, address: address}, nil
}

// listen opens the socket for connections. The file of a unix socket stays
// behind when the engine ends, as vLLM's does.
func (s *socket) listen() (net.Listener, error) {
	file := os.NewFile(uintptr(s.fd), s.address)
	defer file.Close() // FileListener has its own copy
	if err := unix.Listen(s.fd, listenBacklog); err != nil {
		return nil, fmt.Errorf("listen on %s: %w", s.address, err)
	}
	l, err := net.FileListener(file)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", s.address, err)
	}
	return l, nil
}

func (s *socket) close() { unix.Close(s.fd) }
