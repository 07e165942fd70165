// Package hostmem says how much memory this process and its children could
// still take: of the machine, and of the control groups that they are in.
package hostmem

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Memory is in bytes; 0 is not known.
type Memory struct {
	// Free is what could be taken now: MemAvailable, or less where a control
	// group allows less.
	Free uint64
	// Limited says that a control group decided.
	Limited bool
	// Shm is the room left in /dev/shm. What is put there counts as memory too.
	Shm uint64
}

// Look reads the memory of the machine whose root directory is root ("/"
// outside tests).
func Look(root string) Memory {
	m := Memory{Free: available(filepath.Join(root, "proc/meminfo"))}
	for _, dir := range groups(root) {
		if room, ok := roomIn(dir); ok && (m.Free == 0 || room < m.Free) {
			m.Free, m.Limited = room, true
		}
	}
	var s unix.Statfs_t
	if unix.Statfs(filepath.Join(root, "dev/shm"), &s) == nil {
		m.Shm = s.Bavail * uint64(s.Bsize)
	}
	return m
}

// available reads MemAvailable of /proc/meminfo.
func available(path string) uint64 {
	content, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	lines := bufio.NewScanner(bytes.NewReader(content))
	for lines.Scan() {
		if fields := strings.Fields(lines.Text()); len(fields) >= 2 && fields[0] == "MemAvailable:" {
			kib, _ := strconv.ParseUint(fields[1], 10, 64) // the file has no other unit
			return kib << 10
		}
	}
	return 0
}

// groups are the directories of this process's control group and of those above
// it, each of which may set a limit. Version 1 keeps memory in a tree of its own.
func groups(root string) []string {
	content, err := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	if err != nil {
		return nil
	}
	var dirs []string
	for line := range strings.Lines(string(content)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) < 3 {
			continue
		}
		base := ""
		switch {
		case parts[1] == "":
			base = filepath.Join(root, "sys/fs/cgroup")
		case strings.Contains(","+parts[1]+",", ",memory,"):
			base = filepath.Join(root, "sys/fs/cgroup/memory")
		default:
			continue
		}
		// In a container the path may be one that is not visible from inside: what
		// is mounted at base is then the group itself.
		for path := filepath.Clean("/" + parts[2]); ; path = filepath.Dir(path) {
			dirs = append(dirs, filepath.Join(base, path))
			if path == "/" {
				break
			}
		}
	}
	return dirs
}

// roomIn is what a control group still allows; ok is false without a limit. The
// page cache that it counts is given back when memory runs short.
func roomIn(dir string) (room uint64, ok bool) {
	limit, limited := readNumber(filepath.Join(dir, "memory.max"))
	used, _ := readNumber(filepath.Join(dir, "memory.current"))
	if !limited {
		limit, limited = readNumber(filepath.Join(dir, "memory.limit_in_bytes"))
		used, _ = readNumber(filepath.Join(dir, "memory.usage_in_bytes"))
	}
	if !limited {
		return 0, false
	}
	used -= min(used, reclaimable(filepath.Join(dir, "memory.stat")))
	return limit - min(limit, used), true
}

// noLimit is where version 1's way of writing "no limit" begins.
const noLimit = 1 << 62

// readNumber reads a file with one number; version 2 writes "max" for none.
func readNumber(path string) (uint64, bool) {
	content, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(content)), 10, 64)
	return n, err == nil && n < noLimit
}

func reclaimable(path string) uint64 {
	content, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(content)) {
		fields := strings.Fields(line)
		if len(fields) == 2 && (fields[0] == "inactive_file" || fields[0] == "total_inactive_file") {
			if n, err := strconv.ParseUint(fields[1], 10, 64); err == nil {
				return n
			}
		}
	}
	return 0
}
