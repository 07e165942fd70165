package host

import (
	"bufio"
	"bytes"
	"io/fs"
	"strconv"
	"strings"
)

// People names the processes on a GPU from a root file system (the real one is
// os.DirFS("/")). It reads /etc/passwd itself: os/user asks the name service,
// which may wait for a network, and one process's owner is not worth that.
type People struct{ Root fs.FS }

// Identify fills in name and user of a PID. Both stay empty when /proc does
// not show the process: it ended, or lives in another PID namespace.
func (p People) Identify(pid int) (name, user string) {
	dir := "proc/" + strconv.Itoa(pid) + "/"
	comm, err := fs.ReadFile(p.Root, dir+"comm")
	if err != nil {
		return "", ""
	}
	status, err := fs.ReadFile(p.Root, dir+"status")
	if err != nil {
		return strings.TrimSpace(string(comm)), ""
	}
	uid, ok := effectiveUID(status)
	if !ok {
		return strings.TrimSpace(string(comm)), ""
	}
	return strings.TrimSpace(string(comm)), p.userName(uid)
}

// userName is the login name of a uid, or "uid 1001" when there is none.
func (p People) userName(uid string) string {
	passwd, err := fs.ReadFile(p.Root, "etc/passwd")
	if err == nil {
		lines := bufio.NewScanner(bytes.NewReader(passwd))
		for lines.Scan() {
			fields := strings.Split(lines.Text(), ":")
			if len(fields) >= 3 && fields[2] == uid {
				return fields[0]
			}
		}
	}
	return "uid " + uid
}

// effectiveUID finds "Uid: real effective saved fs" in /proc/PID/status.
func effectiveUID(status []byte) (string, bool) {
	for line := range strings.Lines(string(status)) {
		rest, ok := strings.CutPrefix(line, "Uid:")
		if !ok {
			continue
		}
		fields := strings.Fields(rest)
		if len(fields) < 2 {
			return "", false
		}
		if _, err := strconv.ParseUint(fields[1], 10, 32); err != nil {
			return "", false
		}
		return fields[1], true
	}
	return "", false
}
