package shim

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"os"
	"strings"
	"time"
)

// Query selects lines of a log.
type Query struct {
	Tail     int       // last n of what is selected; 0 = all
	Since    time.Time // zero = no limit
	Previous bool      // only the generation before the last one
	Follow   bool      // go on with new lines until the context ends
}

// followEvery is how often a followed log is looked at for new lines.
const followEvery = 200 * time.Millisecond

// ReadLog yields the lines of the log in dir, oldest first. A log that does not exist yet is empty.
// Lines are read from the files, not from the shim, so that ended and crashed engines can be read as well.
func ReadLog(ctx context.Context, dir string, q Query) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		files, err := openLogFiles(dir)
		defer func() { closeAll(files) }()
		if err != nil {
			yield(Line{}, err)
			return
		}
		more, err := readSelected(ctx, files, q, func(l Line) bool { return yield(l, nil) })
		if err != nil {
			yield(Line{}, err)
			return
		}
		if !more || !q.Follow || q.Previous {
			return
		}
		var newest *os.File
		if len(files) > 0 {
			newest, files = files[len(files)-1], files[:len(files)-1]
		}
		f := follower{dir: dir, file: newest}
		defer f.close()
		if err := f.run(ctx, yield); err != nil {
			yield(Line{}, err)
		}
	}
}

// openLogFiles opens what exists, oldest first. Open files stay readable when they are rotated meanwhile.
func openLogFiles(dir string) ([]*os.File, error) {
	var files []*os.File
	for age := logFiles - 1; age >= 0; age-- {
		file, err := os.Open(logPath(dir, age))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return files, err
		}
		files = append(files, file)
	}
	return files, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close() // opened for reading: nothing can be lost
	}
}

// readSelected yields what q selects of what the files hold now. It leaves each file read to its end.
func readSelected(ctx context.Context, files []*os.File, q Query, yield func(Line) bool) (more bool, err error) {
	keep := func(Line) bool { return true }
	if q.Previous {
		generation, err := previousGeneration(ctx, files)
		if err != nil || generation == 0 {
			return true, err
		}
		keep = func(l Line) bool { return l.Generation == generation }
	}
	if !q.Since.IsZero() {
		inner := keep
		keep = func(l Line) bool { return inner(l) && !l.At.Before(q.Since) }
	}
	if q.Tail <= 0 {
		return scanFiles(ctx, files, func(l Line) bool { return !keep(l) || yield(l) })
	}
	if !q.Previous { // whatever else is asked for lies within the last lines
		if err := seekTail(files, q.Tail); err != nil {
			return false, err
		}
	}
	last := make([]Line, 0, min(q.Tail, 1024))
	next := 0
	if _, err := scanFiles(ctx, files, func(l Line) bool {
		switch {
		case !keep(l):
		case len(last) < q.Tail:
			last = append(last, l)
		default:
			last[next] = l
			next = (next + 1) % q.Tail
		}
		return true
	}); err != nil {
		return false, err
	}
	for i := range last {
		if !yield(last[(next+i)%len(last)]) {
			return false, nil
		}
	}
	return true, nil
}

// previousGeneration finds the generation before the last one, 0 if there is none, and rewinds the files.
func previousGeneration(ctx context.Context, files []*os.File) (uint64, error) {
	var previous, last uint64
	_, err := scanFiles(ctx, files, func(l Line) bool {
		if l.Generation != 0 && l.Generation != last {
			previous, last = last, l.Generation
		}
		return true
	})
	for _, file := range files {
		_, seekErr := file.Seek(0, io.SeekStart)
		err = errors.Join(err, seekErr)
	}
	return previous, err
}

// seekTail positions the files so that at least the last n lines, and few more, are still to be read.
func seekTail(files []*os.File, n int) error {
	for i := len(files) - 1; i >= 0; i-- {
		info, err := files[i].Stat()
		if err != nil {
			return err
		}
		offset, lines := info.Size(), 0
		if n > 0 {
			if offset, lines, err = tailOffset(files[i], info.Size(), n); err != nil {
				return err
			}
		}
		if _, err := files[i].Seek(offset, io.SeekStart); err != nil {
			return err
		}
		n -= lines
	}
	return nil
}

// readBlock is how much of a log is read at a time when looking for its last lines, in bytes.
const readBlock = 64 << 10

// tailOffset returns where the last n lines of a file begin, and how many lines (at most n) follow from there.
func tailOffset(file io.ReaderAt, size int64, n int) (offset int64, lines int, err error) {
	block := make([]byte, min(readBlock, size))
	for end := size; end > 0; {
		start := max(0, end-readBlock)
		part := block[:end-start]
		if _, err := file.ReadAt(part, start); err != nil && err != io.EOF {
			return 0, 0, err
		}
		for i := len(part) - 1; i >= 0; i-- {
			if part[i] != '\n' || start+int64(i) == size-1 {
				continue // the end of the last line begins no further line
			}
			if lines++; lines == n {
				return start + int64(i) + 1, lines, nil
			}
		}
		end = start
	}
	return 0, lines + 1, nil // the file's first line has no end before it
}

func scanFiles(ctx context.Context, files []*os.File, yield func(Line) bool) (more bool, err error) {
	for _, file := range files {
		r := bufio.NewReaderSize(file, readBlock)
		for {
			if ctx.Err() != nil {
				return false, nil
			}
			text, err := r.ReadString('\n')
			if text != "" && !yield(parseLine(strings.TrimSuffix(text, "\n"))) {
				return false, nil
			}
			if err == io.EOF {
				break
			}
			if err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

// follower reads what is appended to a log, over rotations.
type follower struct {
	dir     string
	file    *os.File // nil = the log does not exist yet
	pending []byte   // a line whose end was not written yet
}

func (f *follower) close() {
	if f.file != nil {
		f.file.Close()
	}
}

// run yields new lines until ctx ends or the reader has enough.
func (f *follower) run(ctx context.Context, yield func(Line, error) bool) error {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for {
		rotated, err := f.rotated()
		if err != nil {
			return err
		}
		// What was written before the rotation is read first: the file is looked at after rotated() looked.
		if more, err := f.drain(yield); err != nil || !more {
			return err
		}
		if rotated {
			f.close()
			if f.file, err = os.Open(logPath(f.dir, 0)); errors.Is(err, os.ErrNotExist) {
				f.file = nil // in the middle of a rotation
			} else if err != nil {
				return err
			}
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// rotated reports whether the log's newest file is another one than ours.
func (f *follower) rotated() (bool, error) {
	now, err := os.Stat(logPath(f.dir, 0))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if f.file == nil {
		return true, nil
	}
	ours, err := f.file.Stat()
	return err == nil && !os.SameFile(now, ours), err
}

func (f *follower) drain(yield func(Line, error) bool) (more bool, err error) {
	if f.file == nil {
		return true, nil
	}
	block := make([]byte, readBlock)
	for {
		n, err := f.file.Read(block)
		f.pending = append(f.pending, block[:n]...)
		rest := f.pending
		for {
			text, after, found := bytes.Cut(rest, []byte{'\n'})
			if !found {
				break
			}
			rest = after
			if !yield(parseLine(string(text)), nil) {
				return false, nil
			}
		}
		f.pending = append(f.pending[:0], rest...)
		if err == io.EOF {
			return true, nil
		}
		if err != nil {
			return false, err
		}
	}
}
