package accesslog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"syscall"
)

// file is the log on disk: path and, older, path.1 to path.<keep>. It is not
// safe for concurrent use, but another process may write to the same path, as
// both wardens do during an upgrade, or rename it, as logrotate does.
type file struct {
	path string
	size int64 // of a file before it is rotated
	keep int   // older files

	f       *os.File
	regular bool // a terminal or a pipe is neither rotated nor mended
	torn    bool // it ends in the middle of a line
}

// open opens path for its owner alone; what is there already stays. It does not
// wait for the reader of a pipe.
func (l *file) open() error {
	f, err := os.OpenFile(l.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY|syscall.O_NONBLOCK, 0o600)
	if errors.Is(err, syscall.ENXIO) {
		return fmt.Errorf("%s: a pipe that nobody reads: %w", l.path, syscall.ENXIO)
	}
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
		err = f.Chmod(0o600)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	l.f, l.regular = f, info.Mode().IsRegular()
	l.torn = l.regular && endsTorn(l.path)
	return nil
}

// endsTorn says whether a log ends in the middle of a line: its writer was
// killed. One that cannot be read is left as it is.
func endsTorn(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return false
	}
	var last [1]byte
	_, err = f.ReadAt(last[:], info.Size()-1)
	return err == nil && last[0] != '\n'
}

// write appends whole lines. After an error nothing of them is in the file, as
// far as that is in our hands, and the next write tries everything again.
func (l *file) write(lines []byte) error {
	before, err := l.prepare(int64(len(lines)))
	if err != nil {
		return err
	}
	if l.torn {
		lines = append([]byte{'\n'}, lines...)
	}
	n, err := l.f.Write(lines)
	if err != nil {
		if n > 0 {
			l.torn = !l.undo(before, int64(n))
		}
		return err
	}
	l.torn = false
	return nil
}

// prepare opens and rotates as needed and returns the size of the file.
func (l *file) prepare(more int64) (int64, error) {
	if l.f != nil && l.regular && l.renamed() {
		if err := l.close(); err != nil {
			return 0, err
		}
	}
	if l.f == nil {
		if err := l.open(); err != nil {
			return 0, err
		}
	}
	if !l.regular {
		return 0, nil
	}
	info, err := l.f.Stat()
	if err != nil || info.Size() == 0 || info.Size()+more <= l.size {
		return sizeOf(info), err
	}
	return 0, l.rotate()
}

func sizeOf(info fs.FileInfo) int64 {
	if info == nil {
		return 0
	}
	return info.Size()
}

// renamed says that path is no longer the file that is open.
func (l *file) renamed() bool {
	there, err := os.Stat(l.path)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	here, err := l.f.Stat()
	return err == nil && !os.SameFile(here, there)
}

func (l *file) rotate() error {
	if err := l.close(); err != nil {
		return err
	}
	for age := l.keep - 1; age >= 0; age-- {
		if err := os.Rename(l.aged(age), l.aged(age+1)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return l.open()
}

func (l *file) aged(age int) string {
	if age == 0 {
		return l.path
	}
	return l.path + "." + strconv.Itoa(age)
}

// undo takes back the n bytes of a write that failed half-way, unless somebody
// else has written behind them.
func (l *file) undo(before, n int64) bool {
	if !l.regular {
		return false
	}
	info, err := l.f.Stat()
	return err == nil && info.Size() == before+n && l.f.Truncate(before) == nil
}

func (l *file) close() error {
	if l.f == nil {
		return nil
	}
	err := l.f.Close()
	l.f, l.torn = nil, false
	return err
}
