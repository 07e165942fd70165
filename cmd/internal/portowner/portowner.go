// Package portowner finds which process listens on a TCP port of this machine,
// so that an error can name it.
package portowner

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Owner is the process behind a listening socket.
type Owner struct {
	PID  int
	Name string
}

func (o Owner) String() string { return fmt.Sprintf("pid %d (%s)", o.PID, o.Name) }

// Find returns the owner of the listening port. ok is false when none listens,
// or when it belongs to another user whose files cannot be read.
func Find(port int) (owner Owner, ok bool) { return find("/proc", port) }

func find(proc string, port int) (Owner, bool) {
	inodes := map[string]bool{}
	for _, table := range []string{"net/tcp", "net/tcp6"} {
		content, err := os.ReadFile(filepath.Join(proc, table))
		if err != nil {
			continue
		}
		for _, line := range strings.Split(string(content), "\n") {
			if inode, listens := listener(line, port); listens {
				inodes["socket:["+inode+"]"] = true
			}
		}
	}
	if len(inodes) == 0 {
		return Owner{}, false
	}
	fds, _ := filepath.Glob(filepath.Join(proc, "[0-9]*", "fd", "*"))
	for _, fd := range fds {
		target, err := os.Readlink(fd)
		if err != nil || !inodes[target] {
			continue
		}
		dir := filepath.Dir(filepath.Dir(fd))
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		name, _ := os.ReadFile(filepath.Join(dir, "comm"))
		return Owner{PID: pid, Name: strings.TrimSpace(string(name))}, true
	}
	return Owner{}, false
}

// stateListen is TCP_LISTEN in the kernel's include/net/tcp_states.h.
const stateListen = "0A"

// listener reads one line of /proc/net/tcp: columns are slot, local address
// (hex address:hex port), remote address, state, ..., inode in the tenth.
func listener(line string, port int) (inode string, ok bool) {
	fields := strings.Fields(line)
	if len(fields) < 10 || fields[3] != stateListen {
		return "", false
	}
	_, hex, found := strings.Cut(fields[1], ":")
	n, err := strconv.ParseUint(hex, 16, 16)
	if !found || err != nil || int(n) != port {
		return "", false
	}
	return fields[9], true
}
