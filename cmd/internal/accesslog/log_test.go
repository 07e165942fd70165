package accesslog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/lm-warden/warden/router/dialect"
	"github.com/lm-warden/warden/router/record"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var arrived = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func answered(id string) record.Record {
	r := record.New(id, "/v1/messages", arrived)
	r.Trace.Parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	r.Model, r.Stream, r.Session, r.Client, r.Class, r.KeyID = "qwen3-4b", true, "0123456789abcdef0123456789abcdef", "claude-code", "main", "alice"
	r.Replica, r.Generation, r.Reason, r.Attempts = "r1", 1, "sticky", 2
	r.Placed, r.Waited = arrived.Add(250*time.Millisecond), 240*time.Millisecond
	r.FirstByte, r.FirstToken, r.Ended = arrived.Add(time.Second), arrived.Add(1500*time.Millisecond), arrived.Add(4*time.Second)
	r.Status, r.BytesIn, r.BytesOut, r.Estimate, r.Finish = 200, 48_000, 900, 11_900, "stop"
	r.Usage = dialect.Usage{PromptTokens: 12_000, CachedTokens: 11_000, OutputTokens: 40}
	return r
}

func refused(id string) record.Record {
	r := record.New(id, "/v1/chat/completions", arrived)
	r.Status, r.Cause, r.Ended = 401, "invalid_api_key", arrived.Add(time.Millisecond)
	return r
}

// written runs a log until all of records are handled.
func written(t *testing.T, o Options, records ...record.Record) *Log {
	t.Helper()
	l, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		l.Add(r)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Run(ended); err != nil {
		t.Fatal(err)
	}
	return l
}

func content(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// An answer in one piece has no first token to wait for.
func TestOnlyStreamsHaveATimeToTheirFirstToken(t *testing.T) {
	whole := answered("a")
	whole.Stream = false
	if l := LineOf(whole, false); l.TTFTSeconds != nil || l.TTFBSeconds == nil {
		t.Errorf("first token after %v, first byte after %v", l.TTFTSeconds, l.TTFBSeconds)
	}
}

func TestLineHoldsWhatARequestWas(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	written(t, Options{Path: path, Simulated: true}, answered("a"), refused("b"))
	lines := strings.SplitAfter(content(t, path), "\n")
	if len(lines) != 3 || lines[2] != "" {
		t.Fatalf("%d lines: %q", len(lines), lines)
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(lines[0]), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"time": "2026-11-30T12:00:00Z", "request_id": "a", "trace_id": "0af7651916cd43dd8448eb211c80319c", "key": "alice",
		"client": "claude-code", "class": "main", "session": "0123456789abcdef0123456789abcdef", "path": "/v1/messages",
		"model": "qwen3-4b", "stream": true, "replica": "r1", "reason": "sticky", "status": 200., "outcome": "complete",
		"finish": "stop", "bytes_in": 48000., "bytes_out": 900., "prompt_tokens": 12000., "cached_tokens": 11000.,
		"output_tokens": 40., "prompt_tokens_estimated": 11900., "wait_seconds": 0.24, "ttfb_seconds": 1., "ttft_seconds": 1.5,
		"duration_seconds": 4., "retries": 1., "simulated": true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	const early = `{"time":"2026-11-30T12:00:00Z","request_id":"b","path":"/v1/chat/completions","status":401,"outcome":"refused",` +
		`"cause":"invalid_api_key","bytes_in":0,"bytes_out":0,"wait_seconds":0,"duration_seconds":0.001,"retries":0,"simulated":true}` + "\n"
	if lines[1] != early {
		t.Errorf("the line of a request that came no further holds more:\n%s", lines[1])
	}
}

func TestStrangersPathsAreShortened(t *testing.T) {
	r := refused("a")
	r.Path = "/" + strings.Repeat("é", 1000)
	l := LineOf(r, false)
	if len(l.Path) > maxPath {
		t.Errorf("%d bytes of path are kept", len(l.Path))
	}
	if _, err := Parse(l.appendTo(nil)); err != nil {
		t.Error(err)
	}
}

func TestOthersCannotReadIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	if err := os.WriteFile(path, []byte(""), 0o644); err != nil {
		t.Fatal(err)
	}
	written(t, Options{Path: path}, answered("a"))
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if mode := info.Mode().Perm(); mode != 0o600 {
		t.Errorf("mode %o", mode)
	}
}

func TestRotationKeepsSomeFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	one := int64(len(LineOf(answered("0"), false).appendTo(nil)))
	l, err := Open(Options{Path: path, Size: 2 * one, Keep: 2})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range strings.Split("0123456", "") {
		l.writeFrom(answered(id), nil)
	}
	if err := l.file.close(); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{path: "6", path + ".1": "45", path + ".2": "23"} {
		lines, _, err := Read(strings.NewReader(content(t, name)), name)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, l := range lines {
			got += l.RequestID
		}
		if got != want {
			t.Errorf("%s holds the requests %s, want %s", name, got, want)
		}
	}
	if _, err := os.Stat(path + ".3"); err == nil {
		t.Error("more files are kept than asked for")
	}
}

// logrotate renames the file under us, and so does another warden.
func TestARenamedFileIsLeft(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	l, err := Open(Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	l.writeFrom(answered("a"), nil)
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	l.writeFrom(answered("b"), nil)
	if err := l.file.close(); err != nil {
		t.Fatal(err)
	}
	if got := content(t, path); !strings.Contains(got, `"request_id":"b"`) || strings.Contains(got, `"request_id":"a"`) {
		t.Errorf("behind the rename: %s", got)
	}
}

func TestFullQueueDropsAndCounts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	l, err := Open(Options{Path: path, Queue: 2})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		l.Add(answered(id)) // nobody writes: it must come back at once
	}
	if l.Dropped() != 3 {
		t.Errorf("%d lines are counted as dropped, want 3", l.Dropped())
	}
	if err := l.file.close(); err != nil {
		t.Fatal(err)
	}
}

// A real full disk: writes beyond the limit fail half-way, as they do on one.
func TestFullDiskLeavesWholeLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	var said bytes.Buffer
	l, err := Open(Options{Path: path, Log: slog.New(slog.NewTextHandler(&said, nil))})
	if err != nil {
		t.Fatal(err)
	}
	l.writeFrom(answered("a"), nil)
	room := int64(len(content(t, path)))
	limitFiles(t, uint64(room+room/2), func() {
		l.writeFrom(answered("b"), nil)
		l.writeFrom(answered("c"), nil)
	})
	l.writeFrom(answered("d"), nil)
	if err := l.file.close(); err != nil {
		t.Fatal(err)
	}
	lines, cut, err := Read(strings.NewReader(content(t, path)), "access.log")
	if err != nil || cut || len(lines) != 2 || lines[1].RequestID != "d" {
		t.Errorf("%d lines, cut %v, %v", len(lines), cut, err)
	}
	if l.Dropped() != 2 {
		t.Errorf("%d lines are counted as dropped, want 2", l.Dropped())
	}
	if got := strings.Count(said.String(), "level="); got != 2 || !strings.Contains(said.String(), "written again") {
		t.Errorf("want one line when it begins and one when it ends:\n%s", said.String())
	}
}

// A warden that was killed while it wrote leaves half a line; the next one's
// first line must not become part of it.
func TestHalfALineOfAKilledWarden(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	written(t, Options{Path: path}, answered("a"), answered("b"))
	whole := content(t, path)
	if err := os.Truncate(path, int64(len(whole)-10)); err != nil {
		t.Fatal(err)
	}
	written(t, Options{Path: path}, answered("c"))
	if text := content(t, path); !strings.HasPrefix(text, whole[:len(whole)-10]+"\n{") || strings.Count(text, "\n") != 3 {
		t.Errorf("the log is now\n%s", text)
	}
}

// limitFiles makes writes beyond size fail for this process while do runs.
func limitFiles(t *testing.T, size uint64, do func()) {
	t.Helper()
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	limit := before
	limit.Cur = size
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	do()
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
}

func TestUnwritablePathIsSaidAtOnce(t *testing.T) {
	_, err := Open(Options{Path: filepath.Join(t.TempDir(), "nowhere", "access.log")})
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}

// Opening a pipe waits for its reader, and with it would the start.
func TestAPipeThatNobodyReads(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Options{Path: path}); !errors.Is(err, syscall.ENXIO) || !strings.Contains(err.Error(), path+": a pipe that nobody reads") {
		t.Errorf("error %v", err)
	}
	reader, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	written(t, Options{Path: path}, answered("a"), answered("b"))
	text, err := io.ReadAll(reader)
	if err != nil || bytes.Count(text, []byte("\n")) != 2 {
		t.Errorf("read %q, %v", text, err)
	}
}

// What a line costs: Add in the goroutine that serves the request, the rest in
// the log's own.
func BenchmarkAdd(b *testing.B) {
	l := &Log{queue: make(chan record.Record, 1)}
	r := answered("a")
	b.ReportAllocs()
	for b.Loop() {
		l.Add(r)
	}
}

func BenchmarkLine(b *testing.B) {
	r := answered("a")
	var line []byte
	b.ReportAllocs()
	for b.Loop() {
		line = LineOf(r, false).appendTo(line[:0])
	}
}
