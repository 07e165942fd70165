// Package handover is what a warden that is upgraded and the one that takes over
// say to each other, over a pair of sockets.
//
// The old one sends the API's listening socket, then a line when it has let go of
// engines and control socket, lines with what it still holds, and one when its
// last answer has left. The new one sends its report when it is ready to take
// over, and a line when it stops. Each sees the other's death as an end of file.
package handover

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lm-warden/warden/cmd/internal/exit"
)

// Words.
const (
	Go      = "go"      // old: take over now
	Drained = "drained" // old: no request is left here
	Held    = "held"    // old: and behind it, in JSON, what is still held here by replica
	Hurry   = "hurry"   // new: do not wait for clients that say nothing
)

// Link is one end of the pair.
type Link struct {
	conn *net.UnixConn
	in   *bufio.Reader
}

// New makes the pair: one end as a connection, the other as a file for
// the new process.
func New() (ours *Link, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot make a pair of sockets: %w", err)
	}
	theirs = os.NewFile(uintptr(fds[1]), "handover")
	ours, err = On(os.NewFile(uintptr(fds[0]), "handover"))
	if err != nil {
		return nil, nil, errors.Join(err, theirs.Close())
	}
	return ours, theirs, nil
}

// On is the end that a process was given as a file.
func On(file *os.File) (*Link, error) {
	conn, err := net.FileConn(file)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	uc, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("descriptor is a %T, not a unix socket", conn), conn.Close())
	}
	return &Link{conn: uc, in: bufio.NewReader(uc)}, nil
}

// Say sends one word, a line.
func (h *Link) Say(word string) error {
	_, err := h.conn.Write([]byte(word + "\n"))
	return err
}

// SayWithin is Say to one that may not listen. A line is short enough for the
// socket to take it whole or not at all.
func (h *Link) SayWithin(limit time.Duration, word string) error {
	if err := h.conn.SetWriteDeadline(time.Now().Add(limit)); err != nil {
		return err
	}
	return errors.Join(h.Say(word), h.conn.SetWriteDeadline(time.Time{}))
}

// Hear waits for the next word; "" when the other end is gone.
func (h *Link) Hear() string {
	line, err := h.in.ReadString('\n')
	if err != nil {
		return ""
	}
	return strings.TrimSpace(line)
}

// SendListener passes a listening socket on. It goes through the socket and not
// through the new process's descriptor table, because Go makes a descriptor
// that it puts there blocking, for both processes.
func (h *Link) SendListener(l net.Listener) error {
	sc, ok := l.(syscall.Conn)
	if !ok {
		return fmt.Errorf("cannot pass on a %T", l)
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return err
	}
	var sent error
	err = raw.Control(func(fd uintptr) {
		_, _, sent = h.conn.WriteMsgUnix([]byte("l"), unix.UnixRights(int(fd)), nil)
	})
	return errors.Join(err, sent)
}

// ReceiveListener must be called before anything else is read.
func (h *Link) ReceiveListener() (net.Listener, error) {
	control := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := h.conn.ReadMsgUnix(make([]byte, 1), control)
	if err != nil {
		return nil, err
	}
	messages, err := unix.ParseSocketControlMessage(control[:n])
	if err != nil || len(messages) != 1 {
		return nil, fmt.Errorf("the API's socket was not passed on: %d control messages: %w", len(messages), orNot(err))
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return nil, fmt.Errorf("the API's socket was not passed on: %d descriptors: %w", len(fds), orNot(err))
	}
	unix.CloseOnExec(fds[0])
	file := os.NewFile(uintptr(fds[0]), "listener")
	l, err := net.FileListener(file)
	return l, errors.Join(err, file.Close())
}

// orNot gives what is wrong by its number alone an error.
func orNot(err error) error {
	if err == nil {
		return errors.New("want one")
	}
	return err
}

// SendReport says how the start of the new one went.
func (h *Link) SendReport(r exit.Report) error { return json.NewEncoder(h.conn).Encode(r) }

// ReceiveReport waits at most limit.
func (h *Link) ReceiveReport(limit time.Duration) (exit.Report, error) {
	var r exit.Report
	if err := h.conn.SetReadDeadline(time.Now().Add(limit)); err != nil {
		return r, err
	}
	line, err := h.in.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &r)
	}
	return r, errors.Join(err, h.conn.SetReadDeadline(time.Time{}))
}

// Close gives this end up.
func (h *Link) Close() { _ = h.conn.Close() } // nothing is buffered that could be lost
