package control

import (
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// peer is the process at the other end, as the kernel recorded it when the connection was made.
type peer struct {
	uid uint32
	pid int32
}

// peerOf asks the kernel; nothing the other side sends can change the answer.
func peerOf(conn net.Conn) (peer, error) {
	uc, ok := conn.(*net.UnixConn)
	if !ok {
		return peer{}, fmt.Errorf("control connection is a %T, not a unix socket", conn)
	}
	raw, err := uc.SyscallConn()
	if err != nil {
		return peer{}, err
	}
	var cred *unix.Ucred
	var optErr error
	if err := raw.Control(func(fd uintptr) {
		cred, optErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return peer{}, err
	}
	if optErr != nil {
		return peer{}, optErr
	}
	return peer{uid: cred.Uid, pid: cred.Pid}, nil
}

// allowed is the whole access rule: the user who runs the daemon, or root.
func allowed(p peer, daemonUID uint32) bool {
	return p.uid == daemonUID || p.uid == 0
}
