package framing

import "net"

// Listen wraps l: what its connections read is followed, and ends with an
// error where the framing is not beyond doubt. An http.Server answers such an
// error with 400 and closes the connection.
func Listen(l net.Listener) net.Listener { return listener{l} }

type listener struct{ net.Listener }

func (l listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return Wrap(conn), nil
}

// Wrap makes one connection as Listen's are.
func Wrap(c net.Conn) net.Conn { return &conn{Conn: c} }

type conn struct {
	net.Conn
	scan Scanner // of Read alone; net/http reads from one goroutine at a time
}

// NetConn is the connection underneath.
func (c *conn) NetConn() net.Conn { return c.Conn }

// Read gives nothing of a block with a fault in it: a request whose head ends
// in doubt must not begin.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if wrong := c.scan.Next(p[:n]); wrong != nil {
		return 0, wrong
	}
	return n, err
}
