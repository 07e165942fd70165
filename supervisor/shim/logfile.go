package shim

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A replica's log is engine.log and, older, engine.log.1 ... engine.log.4: at most 5 files of 50 MB.
const (
	logName     = "engine.log"
	logFileSize = 50_000_000
	logFiles    = 5
)

// stampFormat has a fixed width, so that a log line's fields stay under each other.
const stampFormat = "2006-01-02T15:04:05.000Z07:00"

// logFile is a rotated log: one line is `2026-11-30T21:02:11.123Z g7 text`, g7 being the generation. It is not safe
// for concurrent use.
type logFile struct {
	dir  string
	size int64 // of a file before it is rotated
	file *os.File
	used int64
	buf  []byte
}

// openLog opens the log in dir. It is usable also after an error: each write then tries to open it again.
func openLog(dir string, size int64) (*logFile, error) {
	l := &logFile{dir: dir, size: size}
	return l, l.open()
}

func (l *logFile) open() error {
	if err := os.MkdirAll(l.dir, 0o700); err != nil {
		return err
	}
	file, err := os.OpenFile(logPath(l.dir, 0), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		return errors.Join(err, file.Close())
	}
	l.file, l.used = file, info.Size()
	return nil
}

func logPath(dir string, age int) string {
	path := filepath.Join(dir, logName)
	if age > 0 {
		path += "." + strconv.Itoa(age)
	}
	return path
}

// write appends one line. After an error the log tries again with the next line: a full disk may be emptied.
func (l *logFile) write(line Line) error {
	if l.file == nil {
		if err := l.open(); err != nil {
			return err
		}
	}
	l.buf = appendLine(l.buf[:0], line)
	if l.used > 0 && l.used+int64(len(l.buf)) > l.size {
		if err := l.rotate(); err != nil {
			return err
		}
	}
	n, err := l.file.Write(l.buf)
	l.used += int64(n)
	return err
}

func (l *logFile) rotate() error {
	if err := l.close(); err != nil {
		return err
	}
	for age := logFiles - 2; age >= 0; age-- {
		err := os.Rename(logPath(l.dir, age), logPath(l.dir, age+1))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return l.open()
}

func (l *logFile) close() error {
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file = nil
	return err
}

func appendLine(b []byte, l Line) []byte {
	b = l.At.UTC().AppendFormat(b, stampFormat)
	b = append(b, " g"...)
	b = strconv.AppendUint(b, l.Generation, 10)
	b = append(b, ' ')
	b = append(b, l.Text...)
	return append(b, '\n')
}

// parseLine reads a line of the log file without its end. A line that no shim wrote (cut by a full disk, edited by
// hand) comes back as text only.
func parseLine(text string) Line {
	stamp, rest, found := strings.Cut(text, " ")
	at, err := time.Parse(stampFormat, stamp)
	if !found || err != nil {
		return Line{Text: text}
	}
	mark, rest, _ := strings.Cut(rest, " ")
	generation, err := strconv.ParseUint(strings.TrimPrefix(mark, "g"), 10, 64)
	if err != nil || !strings.HasPrefix(mark, "g") {
		return Line{Text: text}
	}
	return Line{At: at, Generation: generation, Text: rest}
}
