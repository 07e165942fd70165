package front

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// errEdited is what an editor says that could not have the file for itself.
var errEdited = errors.New("another program edits it and does not end")

// An edit takes milliseconds: reading, writing and one fsync.
const (
	lockTime  = 10 * time.Second
	lockPause = 10 * time.Millisecond
)

// lockKeys opens a key file for one editor alone; closing it lets the next one
// in. With create it makes a file that is not there, empty.
//
// The lock is on the file itself, which only those may open who may edit it. An
// edit replaces the file, so that a lock counts only while the name still leads
// to the file that is locked.
func lockKeys(file string, create bool) (*os.File, error) {
	for end := time.Now().Add(lockTime); ; time.Sleep(lockPause) {
		f, err := openToLock(file, create)
		if err != nil {
			return nil, err
		}
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil && leadsTo(file, f) {
			return f, nil
		}
		_ = f.Close() // nothing was written
		if err != nil && !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return nil, os.NewSyscallError("flock", err)
		}
		if time.Now().After(end) {
			return nil, errEdited
		}
	}
}

// openToLock opens for writing where that may be: network file systems want it
// of who locks. An edit itself needs the right to write in the directory only.
func openToLock(file string, create bool) (*os.File, error) {
	flags := 0
	if create {
		flags = os.O_CREATE
	}
	f, err := os.OpenFile(file, flags|os.O_RDWR, 0o600)
	if errors.Is(err, fs.ErrPermission) {
		f, err = os.OpenFile(file, flags|os.O_RDONLY, 0o600)
	}
	return f, err
}

func leadsTo(file string, f *os.File) bool {
	there, err := os.Stat(file)
	if err != nil {
		return false
	}
	here, err := f.Stat()
	return err == nil && os.SameFile(there, here)
}
