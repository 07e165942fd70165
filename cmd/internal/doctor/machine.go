package doctor

import (
	"bufio"
	"bytes"
	"errors"
	"io/fs"
	"math"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/lm-warden/warden/cmd/internal/portowner"
)

// LookAtPort tries to bind the address and names who holds it.
func LookAtPort(address string) Port {
	p := Port{Address: address}
	l, err := net.Listen("tcp", address)
	if err == nil {
		p.Err = l.Close()
		return p
	}
	p.Err = err
	var refused *net.OpError
	if errors.As(err, &refused) {
		p.Err = refused.Err
	}
	if _, text, err := net.SplitHostPort(address); err == nil {
		if number, err := net.LookupPort("tcp", text); err == nil {
			if owner, ok := portowner.Find(number); ok {
				p.Owner = owner.String()
			}
		}
	}
	return p
}

// LookAtShm reads the size of the file system at path (/dev/shm).
func LookAtShm(path string) Filesystem {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return Filesystem{Err: err}
	}
	return Filesystem{Size: s.Blocks * uint64(s.Bsize)}
}

// RoomIn returns the bytes that this user may still write below path, which
// need not exist yet.
func RoomIn(path string) (uint64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(nearest(path), &s); err != nil {
		return 0, err
	}
	return s.Bavail * uint64(s.Bsize), nil
}

// nearest is path or its lowest directory that exists.
func nearest(path string) string {
	for {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			return path
		}
		parent := filepath.Dir(path)
		if parent == path {
			return path
		}
		path = parent
	}
}

// Writable says why nothing could be made in path, which need not exist yet.
func Writable(path string) error {
	there := nearest(path)
	info, err := os.Stat(there)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return &fs.PathError{Op: "write in", Path: there, Err: unix.ENOTDIR}
	}
	if err := unix.Access(there, unix.W_OK|unix.X_OK); err != nil {
		return &fs.PathError{Op: "write in", Path: there, Err: err}
	}
	return nil
}

// LookAtOpenFiles reads the limit on open files.
func LookAtOpenFiles() Limit {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
		return Limit{Err: err}
	}
	return Limit{Hard: r.Max}
}

// LookAtMemory reads the memory of the machine whose root directory is root,
// and the limit of the control group that it is seen from.
func LookAtMemory(root string) Memory {
	m := Memory{Available: meminfo(filepath.Join(root, "proc/meminfo"), "MemAvailable")}
	for _, file := range []string{"sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		content, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			continue
		}
		limit, err := strconv.ParseUint(strings.TrimSpace(string(content)), 10, 64)
		// Version 1 writes a huge number for no limit, version 2 the word max.
		if err == nil && limit < math.MaxInt64/2 {
			m.Limit = limit
		}
		break
	}
	return m
}

// meminfo reads one line of /proc/meminfo, in bytes; 0 = not there.
func meminfo(path, key string) uint64 {
	content, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	lines := bufio.NewScanner(bytes.NewReader(content))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) >= 2 && fields[0] == key+":" {
			kib, _ := strconv.ParseUint(fields[1], 10, 64) // the file has no other unit
			return kib << 10
		}
	}
	return 0
}

// LookAtContainer says in which kind of container root is seen from.
func LookAtContainer(root string, lookupEnv func(string) (string, bool)) Container {
	c := Container{}
	if kind, ok := lookupEnv("container"); ok { // systemd-nspawn, podman, lxc
		c.Kind = kind
	}
	for file, kind := range map[string]string{".dockerenv": "docker", "run/.containerenv": "podman"} {
		if _, err := os.Stat(filepath.Join(root, file)); err == nil {
			c.Kind = kind
		}
	}
	if _, ok := lookupEnv("KUBERNETES_SERVICE_HOST"); ok && c.Kind == "" {
		c.Kind = "kubernetes"
	}
	if c.Kind != "" {
		comm, _ := os.ReadFile(filepath.Join(root, "proc/1/comm"))
		c.Init = strings.TrimSpace(string(comm))
	}
	return c
}
