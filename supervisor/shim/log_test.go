package shim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// writeLog writes n lines, a second apart, of which every fourth begins a new generation, into files of size bytes.
func writeLog(t *testing.T, dir string, n int, size int64) []Line {
	t.Helper()
	l, err := openLog(dir, size)
	if err != nil {
		t.Fatal(err)
	}
	var all []Line
	for i := range n {
		line := Line{At: noon.Add(time.Duration(i) * time.Second), Generation: uint64(1 + i/4), Text: fmt.Sprintf("line %d", i)}
		if err := l.write(line); err != nil {
			t.Fatal(err)
		}
		all = append(all, line)
	}
	if err := l.close(); err != nil {
		t.Fatal(err)
	}
	return all
}

func read(t *testing.T, dir string, q Query) []Line {
	t.Helper()
	var got []Line
	for l, err := range ReadLog(t.Context(), dir, q) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, l)
	}
	return got
}

const lineSize = int64(len("2026-01-02T12:00:00.000Z g1 line 0\n"))

func TestReadLogSelects(t *testing.T) {
	dir := t.TempDir()
	all := writeLog(t, dir, 10, 3*lineSize) // four files
	tests := []struct {
		name string
		q    Query
		want []Line
	}{
		{"all", Query{}, all},
		{"last one", Query{Tail: 1}, all[9:]},
		{"last of two files", Query{Tail: 3}, all[7:]},
		{"more than there are", Query{Tail: 99}, all},
		{"exactly all", Query{Tail: 10}, all},
		{"since", Query{Since: noon.Add(7 * time.Second)}, all[7:]},
		{"since, last", Query{Since: noon.Add(6 * time.Second), Tail: 2}, all[8:]},
		{"previous generation", Query{Previous: true}, all[4:8]},
		{"previous generation, last", Query{Previous: true, Tail: 3}, all[5:8]},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, read(t, dir, tt.q)); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
	if got := read(t, filepath.Join(dir, "missing"), Query{}); got != nil {
		t.Errorf("a missing log has lines: %v", got)
	}
	if got := read(t, dir, Query{Previous: true, Since: noon.Add(time.Hour)}); got != nil {
		t.Errorf("nothing is that new: %v", got)
	}
	for range ReadLog(t.Context(), dir, Query{}) {
		break // a reader that has enough
	}
}

func TestLogIsRotatedAndBounded(t *testing.T) {
	dir := t.TempDir()
	all := writeLog(t, dir, 40, 3*lineSize)
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != logFiles {
		t.Fatalf("%d files, %v; want %d", len(files), err, logFiles)
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil || info.Size() > 3*(lineSize+2) || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %d bytes, mode %s, %v", f.Name(), info.Size(), info.Mode(), err)
		}
	}
	got := read(t, dir, Query{})
	if diff := cmp.Diff(all[len(all)-len(got):], got); diff != "" || len(got) < 2*logFiles-1 {
		t.Errorf("%d lines kept: %s", len(got), diff)
	}
}

func TestFollowOverRotations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		ctx, cancel := context.WithCancel(t.Context())
		lines, done := make(chan string, 100), make(chan error, 1)
		go func() {
			for l, err := range ReadLog(ctx, dir, Query{Tail: 1, Follow: true}) {
				if err != nil {
					done <- err
					return
				}
				lines <- l.Text
			}
			done <- nil
		}()
		<-time.After(time.Second) // there is no log yet
		l, err := openLog(dir, 3*lineSize)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			if err := l.write(Line{At: noon, Generation: 1, Text: fmt.Sprint("line ", i)}); err != nil {
				t.Fatal(err)
			}
			if i%2 == 0 { // sometimes one, sometimes two lines and a rotation between two looks
				<-time.After(followEvery + time.Millisecond)
			}
		}
		<-time.After(time.Second)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		close(lines)
		var got []string
		for text := range lines {
			got = append(got, text)
		}
		var want []string
		for i := range 20 {
			want = append(want, fmt.Sprint("line ", i))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if err := l.close(); err != nil {
			t.Error(err)
		}
	})
}

func FuzzParseLine(f *testing.F) {
	f.Add("2026-01-02T12:00:00.000Z g7 text")
	f.Add("2026-01-02T12:00:00.000Z g7 ")
	f.Add("2026-01-02T12:00:00.000Z x")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		if strings.ContainsAny(text, "\n") {
			return // the file's lines have none
		}
		l := parseLine(text)
		if l.At.IsZero() {
			if l.Text != text {
				t.Fatalf("%q became %q", text, l.Text)
			}
			return
		}
		if again := parseLine(strings.TrimSuffix(string(appendLine(nil, l)), "\n")); again.Text != l.Text || again.Generation != l.Generation {
			t.Fatalf("%+v became %+v", l, again)
		}
	})
}

func TestTailOffsetOverBlocks(t *testing.T) {
	content := strings.Repeat(strings.Repeat("x", 99)+"\n", 5000) // several blocks
	r := strings.NewReader(content)
	for _, n := range []int{1, 2, 655, 656, 4999, 5000, 6000} {
		offset, lines, err := tailOffset(r, r.Size(), n)
		if want := min(n, 5000); err != nil || lines != want || offset != r.Size()-int64(want)*100 {
			t.Errorf("last %d: offset %d, %d lines, %v", n, offset, lines, err)
		}
	}
}

// TestSlowDiskLosesLinesButNeverWaits: the queue's reader stands still.
func TestSlowDiskLosesLinesButNeverWaits(t *testing.T) {
	q := newDiskQueue()
	text := strings.Repeat("x", 1<<10)
	for range 3000 { // 3 MB, with nobody writing
		q.put(Line{At: noon, Generation: 1, Text: text})
	}
	kept := queueSize / (len(text) + lineCost)
	if lost := q.lostLines(); lost != uint64(3000-kept) {
		t.Errorf("%d lines lost, want %d", lost, 3000-kept)
	}
	dir := t.TempDir()
	file, err := openLog(dir, logFileSize)
	if err != nil {
		t.Fatal(err)
	}
	q.close()
	q.run(file, slog.New(slog.DiscardHandler))
	got := read(t, dir, Query{})
	if len(got) != kept+1 || got[0].Text != fmt.Sprintf("[warden: %d lines lost, the disk was too slow or full]", 3000-kept) {
		t.Errorf("%d lines, the first %q", len(got), got[0].Text)
	}
}

func TestFullDiskIsToldOnceAndTriedAgain(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skipf("no /dev/full, which stands for a full disk: %v", err)
	}
	dir := t.TempDir()
	file := &logFile{dir: dir, size: logFileSize, file: full}
	var told strings.Builder
	q := newDiskQueue()
	for range 5 {
		q.put(Line{At: noon, Text: "lost"})
	}
	q.close()
	q.run(file, slog.New(slog.NewTextHandler(&told, nil)))
	if n := strings.Count(told.String(), "engine log cannot be written"); n != 1 || q.lostLines() != 5 {
		t.Errorf("told %d times, %d lines lost: %s", n, q.lostLines(), told.String())
	}
	if err := file.write(Line{At: noon, Text: "there is room again"}); err != nil { // run has closed the full one
		t.Error(err)
	}
	if got := read(t, dir, Query{}); len(got) != 1 {
		t.Errorf("%+v", got)
	}
	if err := file.close(); err != nil {
		t.Error(err)
	}
}

func TestDrainNeverBlocksTheEngine(t *testing.T) {
	r, w := io.Pipe()
	done := make(chan error, 1)
	var got []Line
	go func() { done <- drain(r, 4, redactor{}, func(l Line) { got = append(got, l) }) }()
	if _, err := io.WriteString(w, "one\ntwo"); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if len(got) != 2 || got[0].Text != "one" || got[1].Text != "two" || got[1].Generation != 4 || got[1].At.IsZero() {
		t.Errorf("%+v", got)
	}
	r, w = io.Pipe()
	broken := errors.New("broken")
	w.CloseWithError(broken)
	if err := drain(r, 1, redactor{}, nil); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}
