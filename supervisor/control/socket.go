package control

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// maxSocketPath is sizeof(sockaddr_un.sun_path) less the terminating zero.
const maxSocketPath = 107

// answerTimeout bounds how long a possible other daemon may take to prove that it lives.
const answerTimeout = time.Second

// claim makes this process the only daemon on path. The lock decides between two that start at once, and the kernel
// drops it however its holder dies, so a socket file without a lock holder is a leftover and is removed. passed is the
// lock from the daemon before, or nil.
func claim(path string, passed *os.File) (*net.UnixListener, *os.File, error) {
	if err := checkLength(path); err != nil {
		passed.Close()
		return nil, nil, err
	}
	lock := passed
	if lock == nil || !names(path+".lock", lock) {
		lock.Close() // of another name, or removed meanwhile
		var err error
		if lock, err = lockFor(path); err != nil {
			return nil, nil, err
		}
	}
	ln, err := listenUnix(path)
	if err == nil {
		err = writePID(lock, os.Getpid())
	}
	if err != nil {
		if ln != nil {
			ln.Close()
		}
		lock.Close()
		return nil, nil, err
	}
	return ln, lock, nil
}

// lockFor takes the lock beside the socket. The file stays when the daemon ends: removing it would let a third
// process lock a new file while a second still waits on the old one.
func lockFor(path string) (*os.File, error) {
	lock, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot lock %s: %w", path, err)
	}
	err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	switch {
	case err == nil:
		return lock, nil
	case errors.Is(err, unix.EWOULDBLOCK):
		running := runningOn(path)
		if running.PID == 0 {
			running.PID = readPID(lock)
		}
		lock.Close()
		return nil, running
	default:
		lock.Close()
		return nil, fmt.Errorf("cannot lock %s: %w", path, err)
	}
}

func listenUnix(path string) (*net.UnixListener, error) {
	if err := removeStale(path); err != nil {
		return nil, err
	}
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w", path, err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		ln.Close()
		return nil, fmt.Errorf("cannot protect %s: %w", path, err)
	}
	return ln, nil
}

// removeStale clears the way. The lock is held, so an answer can only come from something that is not this version
// of warden, and that is left alone.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot look at %s: %w", path, err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return &PlaceError{Socket: path}
	}
	conn, err := net.DialTimeout("unix", path, answerTimeout)
	if err == nil {
		conn.Close()
		return runningOn(path)
	}
	if !errors.Is(err, unix.ECONNREFUSED) {
		return fmt.Errorf("cannot tell whether somebody listens on %s: %w", path, err)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("cannot remove the stale socket %s: %w", path, err)
	}
	return nil
}

// runningOn asks whoever listens who it is.
func runningOn(path string) *AlreadyRunningError {
	running := &AlreadyRunningError{Socket: path}
	ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
	defer cancel()
	c := newClient(path)
	defer c.Close()
	if v, err := c.Version(ctx); err == nil {
		running.PID, running.Version = v.PID, &v
	}
	return running
}

func writePID(lock *os.File, pid int) error {
	if err := lock.Truncate(0); err != nil {
		return fmt.Errorf("cannot write %s: %w", lock.Name(), err)
	}
	if _, err := lock.WriteAt([]byte(strconv.Itoa(pid)+"\n"), 0); err != nil {
		return fmt.Errorf("cannot write %s: %w", lock.Name(), err)
	}
	return nil
}

// readPID returns the pid in the lock file, or 0.
func readPID(lock *os.File) int {
	buf := make([]byte, 32)
	n, _ := lock.ReadAt(buf, 0)
	pid, err := strconv.Atoi(strings.TrimSpace(string(buf[:n])))
	if err != nil || pid < 0 {
		return 0
	}
	return pid
}
