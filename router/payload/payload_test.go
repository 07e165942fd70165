package payload

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/zstd"
)

// A released body is gone for good, and a second release takes nothing from
// whoever has the buffer by then.
func TestRelease(t *testing.T) {
	var pool Pool
	p := &Payload{pool: &pool}
	body, err := p.room.fill(strings.NewReader("0123456789"), 10, Limits{Body: 100}, &pool)
	if string(body) != "0123456789" || err != nil {
		t.Fatal(string(body), err)
	}
	p.Bytes = body
	buffer := p.room.buffer
	p.Release()
	if p.Bytes != nil || buffer.Len() != 0 {
		t.Errorf("after its release %q is left, %d bytes in the buffer", p.Bytes, buffer.Len())
	}
	buffer.WriteString("another's")
	p.Release()
	if buffer.Len() != len("another's") {
		t.Error("the second release emptied a buffer that was another's")
	}
}

// Nothing but JSON comes in, however its type is written.
func TestContentType(t *testing.T) {
	for kind, good := range map[string]bool{
		"application/json": true, "application/json; charset=utf-8": true, "Application/JSON": true, " application/json ;a=b": true,
		"": false, "text/plain": false, "application/json,text/plain": false, "application/jsonp": false, "application/json;": true,
		"application/x-www-form-urlencoded": false, "application/json; charset": false,
	} {
		req := httptest.NewRequest("POST", "/", strings.NewReader("{}"))
		req.Header.Set("Content-Type", kind)
		p, refused := Read(req, req.Body, Limits{Body: 10}, new(Pool))
		if (refused == nil) != good || refused != nil && refused.Status != 415 {
			t.Errorf("%q: refused with %+v", kind, refused)
		}
		if p != nil {
			p.Release()
		}
	}
}

// Where a body lies, step by step as it comes.
func TestRoom(t *testing.T) {
	const mib = 1 << 20
	limits := Limits{Body: 34 * mib, Spool: 16 * mib}
	for _, c := range []struct {
		name           string
		have, declared int64
		limits         Limits
		size           int64
		where          place
	}{
		{"nothing declared", 0, -1, limits, slack, inBuffer},
		{"small", 0, 60 << 10, limits, 60<<10 + 1, inBuffer},
		{"empty", 0, 0, limits, bytes.MinRead, inBuffer},
		{"the largest small one", 0, 2 * mib, limits, 2*mib + 1, inBuffer},
		{"large", 0, 8 * mib, limits, 8*mib + 1, inMemory},
		{"very large", 0, 20 * mib, limits, 20*mib + 1, inFile},
		{"very large, never spooled", 0, 20 * mib, Limits{Body: 34 * mib}, 20*mib + 1, inMemory},
		{"more than may be", 0, 1 << 40, limits, slack, inBuffer},
		{"longer than declared", 11, 10, limits, 11 + 11/4 + slack, inBuffer},
		{"grown out of the buffer", 2 * mib, -1, limits, 16 * mib, inMemory},
		{"grown out of memory", 16 * mib, -1, limits, 34*mib + 1, inFile},
		{"declared too short, large", 8*mib + 1, 8 * mib, limits, 16 * mib, inMemory},
		{"a small limit", 0, -1, Limits{Body: 100}, bytes.MinRead, inBuffer},
	} {
		size, where := next(c.have, c.declared, c.limits)
		if size != c.size || where != c.where {
			t.Errorf("%s: room for %d in %d, want %d in %d", c.name, size, where, c.size, c.where)
		}
	}
}

func TestFill(t *testing.T) {
	limits := Limits{Body: 8 << 20, Spool: 3 << 20, Dir: t.TempDir()}
	want := bytes.Repeat([]byte("0123456789"), 400_000) // 4 MB: in each of the three
	for name, in := range map[string]func() io.Reader{
		"at once":           func() io.Reader { return bytes.NewReader(want) },
		"in pieces":         func() io.Reader { return iotest.HalfReader(bytes.NewReader(want)) },
		"byte by byte":      func() io.Reader { return iotest.OneByteReader(bytes.NewReader(want[:5000])) },
		"end with the data": func() io.Reader { return iotest.DataErrReader(bytes.NewReader(want)) },
		"empty":             func() io.Reader { return strings.NewReader("") },
	} {
		for _, declared := range []int64{-1, int64(len(want)), 7, 2 << 20} {
			var pool Pool
			var r room
			body, err := r.fill(in(), declared, limits, &pool)
			if err != nil || !bytes.HasPrefix(want, body) || name == "at once" && len(body) != len(want) {
				t.Errorf("%s, declared %d: %d bytes, %v", name, declared, len(body), err)
			}
			r.free(&pool)
			if r.mapped != nil || r.buffer != nil {
				t.Error("something is left")
			}
		}
	}
	broken := errors.New("reset")
	var r room
	if _, err := r.fill(iotest.ErrReader(broken), -1, limits, new(Pool)); !errors.Is(err, broken) {
		t.Errorf("a broken reader: %v", err)
	}
	if body, err := r.fill(io.LimitReader(endless{}, 1<<30), -1, limits, new(Pool)); int64(len(body)) != limits.Body+1 || err != nil {
		t.Errorf("an endless body: %d bytes, %v", len(body), err)
	}
	r.free(new(Pool))
}

type endless struct{}

func (endless) Read(to []byte) (int, error) { return len(to), nil }

// A spooled body lies in a file that nobody can open and that leaves nothing; a
// place where none can be made costs memory, not the request.
func TestSpool(t *testing.T) {
	want := bytes.Repeat([]byte("spooled "), 1<<19)
	dir := t.TempDir()
	for name, c := range map[string]struct {
		dir  string
		file bool
	}{"in a file": {dir, true}, "no such directory": {dir + "/none", false}} {
		var r room
		body, err := r.fill(bytes.NewReader(want), int64(len(want)), Limits{Body: 16 << 20, Spool: 3 << 20, Dir: c.dir}, new(Pool))
		if err != nil || !bytes.Equal(body, want) {
			t.Fatalf("%s: %d bytes, %v", name, len(body), err)
		}
		maps, err := os.ReadFile("/proc/self/maps")
		if err != nil {
			t.Skip("no /proc: ", err)
		}
		if mapped := bytes.Contains(maps, []byte(dir+"/warden-body-")); mapped != c.file {
			t.Errorf("%s: a file is mapped: %v", name, mapped)
		}
		if left, err := os.ReadDir(dir); len(left) > 0 || err != nil {
			t.Errorf("%s: %v is left, %v", name, left, err)
		}
		r.free(new(Pool))
		maps, _ = os.ReadFile("/proc/self/maps")
		if bytes.Contains(maps, []byte("warden-body-")) {
			t.Errorf("%s: the mapping is left", name)
		}
	}
}

func TestCheckDir(t *testing.T) {
	dir := t.TempDir()
	if err := CheckDir(dir); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); len(left) > 0 || err != nil {
		t.Errorf("%v is left, %v", left, err)
	}
	missing := filepath.Join(dir, "none")
	if err := CheckDir(missing); err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("a directory that is not there: %v", err)
	}
}

// A compressed body can go on for ever and say nothing: members without content.
func TestEndlessNothing(t *testing.T) {
	var member bytes.Buffer
	if err := gzip.NewWriter(&member).Close(); err != nil {
		t.Fatal(err)
	}
	in := &repeated{text: member.Bytes()}
	req := httptest.NewRequest("POST", "/", nil)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Content-Encoding", "gzip")
	req.ContentLength = -1
	const limit = 1 << 20
	if _, refused := Read(req, in, Limits{Body: limit}, new(Pool)); refused == nil || refused.Status != 413 || in.read > 2*limit {
		t.Errorf("refused with %+v after %d bytes", refused, in.read)
	}
}

// repeated is a text over and over, but at some time an error, so that a reader
// without bounds ends.
type repeated struct {
	text []byte
	read int
}

func (r *repeated) Read(to []byte) (n int, err error) {
	if r.read > 1<<24 {
		return 0, errors.New("nobody stopped")
	}
	for n < len(to) {
		more := copy(to[n:], r.text[r.read%len(r.text):])
		n, r.read = n+more, r.read+more
	}
	return n, nil
}

// Whatever comes, in whatever encoding, is decoded within the limit or refused.
func FuzzRead(f *testing.F) {
	const limit = 1 << 16
	plain := `{"model":"m","messages":[{"role":"user","content":"\ud800"}]}`
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = z.Write([]byte(plain))
	_ = z.Close()
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		f.Fatal(err)
	}
	packed := encoder.EncodeAll([]byte(plain), nil)
	_ = encoder.Close()
	f.Add([]byte(plain), "")
	f.Add(zipped.Bytes(), "gzip")
	f.Add(packed, "zstd")
	f.Add(packed[:10], " ZSTD ")
	f.Add(zipped.Bytes()[:15], "x-gzip")
	f.Add([]byte(plain), "br")
	f.Fuzz(func(t *testing.T, body []byte, encoding string) {
		req := httptest.NewRequest("POST", "/", bytes.NewReader(body))
		req.Header.Set("Content-Type", "application/json")
		req.Header["Content-Encoding"] = []string{encoding}
		p, refused := Read(req, req.Body, Limits{Body: limit}, new(Pool))
		if (p == nil) == (refused == nil) {
			t.Fatalf("payload %v, refusal %v", p, refused)
		}
		if refused != nil {
			if refused.Status < 400 || refused.Status >= 500 {
				t.Errorf("refused with %d", refused.Status)
			}
			return
		}
		defer p.Release()
		if len(p.Bytes) > limit {
			t.Errorf("%d bytes, at most %d are allowed", len(p.Bytes), limit)
		}
		if e := strings.ToLower(strings.TrimSpace(encoding)); (e == "" || e == "identity") && !bytes.Equal(p.Bytes, body) {
			t.Errorf("%q became %q", body, p.Bytes)
		}
	})
}
