package accesslog

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"access.log", "access.log.1", "access.log.2.gz", "odd[1].log", "other"} {
		if err := os.WriteFile(at(name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		patterns, want []string
		wrong          string
	}{
		{[]string{"access.log"}, []string{"access.log"}, ""},
		{[]string{"access.log*"}, []string{"access.log", "access.log.1", "access.log.2.gz"}, ""},
		{[]string{"access.log.1", "access*"}, []string{"access.log.1", "access.log", "access.log.2.gz"}, ""}, // each once
		{[]string{"odd[1].log"}, []string{"odd[1].log"}, ""},                                                 // a name first
		{[]string{"access.log", "none"}, nil, "none: no such file"},
		{[]string{"none*"}, nil, "none*: no file has such a name"},
		{[]string{"acc[ess"}, nil, "syntax error in pattern"},
		{[]string{"."}, nil, "is a directory"},
	} {
		var patterns, got []string
		for _, p := range c.patterns {
			patterns = append(patterns, at(p))
		}
		files, err := Files(patterns...)
		for _, f := range files {
			got = append(got, filepath.Base(f))
		}
		if (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%v: %v, want %q", c.patterns, err, c.wrong)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%v: %s", c.patterns, diff)
		}
	}
}

// A compressed log is the log, and one that was cut off says so.
func TestReadFile(t *testing.T) {
	text := LineOf(answered("a"), false).appendTo(nil)
	text = LineOf(answered("b"), false).appendTo(text)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write(text) // into memory
	_ = z.Close()
	file := filepath.Join(t.TempDir(), "access.log")
	for name, c := range map[string]struct {
		content []byte
		lines   int
		cut     bool
		wrong   string
	}{
		"plain":      {text, 2, false, ""},
		"compressed": {packed.Bytes(), 2, false, ""},
		"cut":        {text[:len(text)-10], 1, true, ""},
		"half":       {packed.Bytes()[:packed.Len()/2], 0, false, "in the middle of its compressed data"},
		"no header":  {packed.Bytes()[:5], 0, false, "access.log"},
		"empty":      {nil, 0, false, ""},
		"one byte":   {[]byte("x"), 0, true, ""},
	} {
		if err := os.WriteFile(file, c.content, 0o600); err != nil {
			t.Fatal(err)
		}
		lines, cut, err := ReadFile(file)
		if len(lines) != c.lines || cut != c.cut || (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%s: %d lines, cut %v, %v", name, len(lines), cut, err)
		}
	}
}
