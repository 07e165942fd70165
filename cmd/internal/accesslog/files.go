package accesslog

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Files are the logs that names and patterns (access.log*) mean, each once.
// Errors name what is missing.
func Files(patterns ...string) ([]string, error) {
	var files []string
	var seen []os.FileInfo
	for _, pattern := range patterns {
		found := []string{pattern}
		if _, err := os.Stat(pattern); errors.Is(err, fs.ErrNotExist) && strings.ContainsAny(pattern, `*?[`) {
			var err error
			if found, err = filepath.Glob(pattern); err != nil {
				return nil, fmt.Errorf("%s: %w", pattern, err)
			}
			if len(found) == 0 {
				return nil, fmt.Errorf("%s: no file has such a name", pattern)
			}
		}
		for _, file := range found {
			info, err := os.Stat(file)
			if err != nil {
				return nil, err
			}
			if info.IsDir() {
				return nil, fmt.Errorf("%s: is a directory; %s means the logs in it", file, filepath.Join(file, "*.log*"))
			}
			if slices.ContainsFunc(seen, func(s os.FileInfo) bool { return os.SameFile(s, info) }) {
				continue
			}
			seen, files = append(seen, info), append(files, file)
		}
	}
	return files, nil
}

// ReadFile reads one log, which may be compressed with gzip, as logrotate does.
func ReadFile(name string) (lines []Line, cut bool, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	in := bufio.NewReader(f)
	if magic, err := in.Peek(2); err != nil || string(magic) != "\x1f\x8b" { // too short is not compressed
		return Read(in, name)
	}
	z, err := gzip.NewReader(in)
	if err != nil {
		return nil, false, fmt.Errorf("%s: %w", name, err)
	}
	lines, cut, err = Read(z, name)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("%s: ends in the middle of its compressed data; `gzip -dc %s` gives what can be read", name, name)
	}
	return lines, cut, err
}
