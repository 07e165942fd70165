package daemon

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

// A warden that is upgraded and the one that takes over talk over a pair of
// sockets. The old one sends the API's listening socket, then a line when it
// has let go of engines and control socket, lines with what it still holds, and
// one when its last answer has left. The new one sends its report when it is
// ready to take over, and a line when it stops. Each sees the other's death as an
// end of file.
//
// Read upgrade.go for the old one's side and takeover.go for the new one's.

const (
	wordGo      = "go"      // old: take over now
	wordDrained = "drained" // old: no request is left here
	wordHeld    = "held"    // old: and behind it, in JSON, what is still held here by replica
	wordHurry   = "hurry"   // new: do not wait for clients that say nothing
)

// handover is one end of the pair.
type handover struct {
	conn *net.UnixConn
	in   *bufio.Reader
}

// newHandover makes the pair: one end as a connection, the other as a file for
// the new process.
func newHandover() (ours *handover, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot make a pair of sockets: %w", err)
	}
	theirs = os.NewFile(uintptr(fds[1]), "handover")
	ours, err = handoverOn(os.NewFile(uintptr(fds[0]), "handover"))
	if err != nil {
		return nil, nil, errors.Join(err, theirs.Close())
	}
	return ours, theirs, nil
}

func handoverOn(file *os.File) (*handover, error) {
	conn, err := net.FileConn(file)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	uc, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("descriptor is a %T, not a unix socket", conn), conn.Close())
	}
	return &handover{conn: uc, in: bufio.NewReader(uc)}, nil
}

func (h *handover) say(word string) error {
	_, err := h.conn.Write([]byte(word + "\n"))
	return err
}

// hear waits for the next word; "" when the other end is gone.
func (h *handover) hear() string {
	line, err := h.in.ReadString('\n')
	if err != nil {
		return ""
	}
	return strings.TrimSpace(line)
}

// sendListener passes a listening socket on. It goes through the socket and not
// through the new process's descriptor table, because Go makes a descriptor
// that it puts there blocking, for both processes.
func (h *handover) sendListener(l net.Listener) error {
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

// receiveListener must be called before anything else is read.
func (h *handover) receiveListener() (net.Listener, error) {
	control := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := h.conn.ReadMsgUnix(make([]byte, 1), control)
	if err != nil {
		return nil, err
	}
	messages, err := unix.ParseSocketControlMessage(control[:n])
	if err != nil || len(messages) != 1 {
		return nil, fmt.Errorf("no listening socket came: %w", err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return nil, fmt.Errorf("no listening socket came: %w", err)
	}
	unix.CloseOnExec(fds[0])
	file := os.NewFile(uintptr(fds[0]), "listener")
	l, err := net.FileListener(file)
	return l, errors.Join(err, file.Close())
}

func (h *handover) sendReport(r exit.Report) error { return json.NewEncoder(h.conn).Encode(r) }

// receiveReport waits at most limit.
func (h *handover) receiveReport(limit time.Duration) (exit.Report, error) {
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

func (h *handover) close() { _ = h.conn.Close() } // nothing is buffered that could be lost
