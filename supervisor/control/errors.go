package control

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os/user"
	"strconv"
)

// Codes of Error that programs may test.
const (
	CodeBadRequest      = "bad_request"
	CodeForbidden       = "forbidden"
	CodeNotFound        = "not_found"
	CodeReplicaNotFound = "replica_not_found"
	CodeModelNotFound   = "model_not_found"
	CodeWrongState      = "wrong_state"
	CodeTooManyStreams  = "too_many_streams"
	CodeInternal        = "internal"
)

// Error is a refusal that travels over the wire: {"error":{"code","message","hint"}}. A Daemon returns one to choose
// the code and the hint; any other error becomes CodeInternal.
type Error struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"` // the command or flag that helps
}

func (e *Error) Error() string { return e.Message }

// status is the HTTP status that carries the code.
func (e *Error) status() int {
	switch e.Code {
	case CodeBadRequest:
		return http.StatusBadRequest
	case CodeForbidden:
		return http.StatusForbidden
	case CodeNotFound, CodeReplicaNotFound, CodeModelNotFound:
		return http.StatusNotFound
	case CodeWrongState:
		return http.StatusConflict
	case CodeTooManyStreams:
		return http.StatusTooManyRequests
	default:
		return http.StatusInternalServerError
	}
}

// ErrNoDaemon is what errors.Is finds when nobody listens on the socket: exit code 3.
var ErrNoDaemon = errors.New("no warden is running")

// NoDaemonError says which socket was tried.
type NoDaemonError struct{ Socket string }

func (e *NoDaemonError) Error() string        { return "no warden on " + e.Socket }
func (e *NoDaemonError) Is(target error) bool { return target == ErrNoDaemon }

// Hint is the way out.
func (e *NoDaemonError) Hint() string {
	return "start one: `warden up --model qwen3-4b` or `warden up --demo`"
}

// PermissionError says whose socket it is. It unwraps to fs.ErrPermission.
type PermissionError struct {
	Socket string
	Owner  int // uid; -1 unknown
}

func (e *PermissionError) Error() string {
	if e.Owner < 0 {
		return "socket " + e.Socket + " belongs to another user"
	}
	if name := userName(e.Owner); name != "" {
		return fmt.Sprintf("socket %s belongs to uid %d (%s)", e.Socket, e.Owner, name)
	}
	return fmt.Sprintf("socket %s belongs to uid %d", e.Socket, e.Owner)
}

// Unwrap lets errors.Is find fs.ErrPermission.
func (e *PermissionError) Unwrap() error { return fs.ErrPermission }

// Hint is the way out.
func (e *PermissionError) Hint() string {
	if name := userName(e.Owner); name != "" {
		return "sudo -u " + name + " warden status"
	}
	return "run the command as the user who started warden, or as root"
}

func userName(uid int) string {
	if uid < 0 {
		return ""
	}
	u, err := user.LookupId(strconv.Itoa(uid))
	if err != nil {
		return ""
	}
	return u.Username
}

// PlaceError is a path at which no daemon can have its socket.
type PlaceError struct {
	Socket string
	Over   int // bytes above what a unix socket's path may have; 0 = something else is in the place
}

func (e *PlaceError) Error() string {
	if e.Over > 0 {
		return fmt.Sprintf("%s is %d bytes too long for a unix socket", e.Socket, e.Over)
	}
	return e.Socket + " exists and is not a socket"
}

// Hint is the way out.
func (e *PlaceError) Hint() string {
	if e.Over > 0 {
		return "use a shorter --name, or set XDG_RUNTIME_DIR to a shorter directory"
	}
	return "remove it, or choose another --name"
}

// checkLength refuses a path that the kernel would call an invalid argument.
func checkLength(path string) error {
	if over := len(path) - maxSocketPath; over > 0 {
		return &PlaceError{Socket: path, Over: over}
	}
	return nil
}

// AlreadyRunningError says who holds the socket.
type AlreadyRunningError struct {
	Socket  string
	PID     int      // 0 unknown: it holds the lock but does not answer
	Version *Version // nil when it does not answer
}

func (e *AlreadyRunningError) Error() string {
	switch {
	case e.PID == 0:
		return "another warden holds " + e.Socket + " and does not answer"
	case e.Version == nil:
		return fmt.Sprintf("another warden (pid %d) holds %s and does not answer", e.PID, e.Socket)
	default:
		return fmt.Sprintf("already running (pid %d) on %s", e.PID, e.Socket)
	}
}

// Hint is the way out.
func (e *AlreadyRunningError) Hint() string {
	if e.Version == nil {
		return (&SilentError{Socket: e.Socket, PID: e.PID, Stopped: e.PID != 0 && stopped(e.PID)}).Hint()
	}
	return "`warden top` to watch it, `warden down` to stop it"
}
