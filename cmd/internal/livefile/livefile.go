// Package livefile notices that files were changed while warden runs: API keys,
// certificates.
//
// It looks at them once a second. Notifications of the kernel would be quicker,
// but they belong to a directory's entries, and files like these come through
// symbolic links, renames and network mounts, each with notifications of its
// own kind or none.
package livefile

import (
	"context"
	"os"
	"slices"
	"syscall"
	"time"
)

// Every is how often files are looked at.
const Every = time.Second

// state is what tells one content of a file from another.
type state struct {
	inode   uint64
	owner   [2]uint32 // user and group: who may read it
	size    int64
	changed time.Time
	mode    os.FileMode
	missing bool
}

func stateOf(file string) state {
	info, err := os.Stat(file)
	if err != nil {
		return state{missing: true}
	}
	s := state{size: info.Size(), changed: info.ModTime(), mode: info.Mode()}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		s.inode, s.owner = sys.Ino, [2]uint32{sys.Uid, sys.Gid}
	}
	return s
}

func statesOf(files []string) []state {
	var out []state
	for _, f := range files {
		out = append(out, stateOf(f))
	}
	return out
}

// Seen is what some files were when they were last read.
type Seen struct {
	files  []string
	states []state
}

// Look notes files before they are read for the first time, so that a change
// in between is not missed.
func Look(files ...string) *Seen { return &Seen{files, statesOf(files)} }

// Watch calls changed after each change until ctx ends, once the files are the
// same at two looks: a file that is being written is not read half.
func (s *Seen) Watch(ctx context.Context, changed func()) {
	tick := time.NewTicker(Every)
	defer tick.Stop()
	last := s.states
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := statesOf(s.files)
		if settled := slices.Equal(now, last); settled && !slices.Equal(now, s.states) {
			s.states = now
			changed()
		}
		last = now
	}
}
