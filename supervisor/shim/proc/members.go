package proc

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strconv"
)

// Tree is how the processes of one engine are recognised.
type Tree struct {
	Mark     string // environment entry KEY=VALUE that only this tree carries; empty = none
	Main     int    // PID of the main process; its session and group have the same number
	Start    uint64 // start time of Main
	Ancestor int    // a process, not itself a member, all of whose descendants are members; 0 = none
}

// Members returns the living processes of the tree among all. marking says what a process' environment tells about
// the mark; it is asked at most once a process.
//
// A process belongs to the tree when it is the main process, carries the mark, descends from a member or from
// Ancestor, or sits in the main process' session with an environment that it has overwritten (process titles such
// as VLLM::EngineCore are written there). A process of that session with an intact environment and no mark is a
// stranger: the session number was reused.
func Members(all []Process, t Tree, marking func(pid int, mark string) Marking) []Process {
	member := make(map[int]bool)
	// The kernel gives a number away only when no process and no session has it any more.
	reused := slices.ContainsFunc(all, func(p Process) bool { return p.PID == t.Main && p.Start != t.Start })
	for _, p := range all {
		switch {
		case p.PID == t.Main && !reused:
			member[p.PID] = true
		case t.Mark == "" || !p.Alive():
		default:
			m := marking(p.PID, t.Mark)
			inSession := t.Main != 0 && !reused && p.Session == t.Main && p.Start >= t.Start
			member[p.PID] = m == Marked || (m == Overwritten && inSession)
		}
	}
	for grown := true; grown; {
		grown = false
		for _, p := range all {
			if member[p.PID] || p.PID == t.Ancestor {
				continue
			}
			if member[p.Parent] || (t.Ancestor != 0 && p.Parent == t.Ancestor) {
				member[p.PID], grown = true, true
			}
		}
	}
	var out []Process
	for _, p := range all {
		if member[p.PID] && p.Alive() {
			out = append(out, p)
		}
	}
	return out
}

// Living is Members of all processes of the machine now.
func Living(t Tree) ([]Process, error) {
	all, err := All()
	if err != nil {
		return nil, err
	}
	return Members(all, t, ReadMarking), nil
}

// Marking is what a process' environment says about a mark.
type Marking int

// The kinds of Marking.
const (
	Unmarked    Marking = iota // readable, without the mark
	Marked                     // readable, with the mark
	Overwritten                // readable, but no environment any more
	Hidden                     // not ours to read, or gone
)

// ReadMarking looks for the entry KEY=VALUE in the environment that pid was started with.
func ReadMarking(pid int, mark string) Marking {
	env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return Hidden
	}
	return marking(env, mark)
}

func marking(env []byte, mark string) Marking {
	for entry := range bytes.SplitSeq(env, []byte{0}) {
		if string(entry) == mark {
			return Marked
		}
	}
	// Kernel threads and fresh zombies show nothing at all; they are nobody's engine either.
	if len(env) > 0 && !bytes.ContainsRune(env, '=') {
		return Overwritten
	}
	return Unmarked
}

// ErrAlive means that processes outlived SIGKILL.
var ErrAlive = errors.New("processes that cannot be killed")
