package payload

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/zstd"
)

// A released body is gone for good, and a second release takes nothing from
// whoever has the buffer by then.
func TestRelease(t *testing.T) {
	buffer := bytes.NewBufferString("0123456789")
	p := &Payload{Bytes: buffer.Bytes(), buffer: buffer, pool: new(Pool)}
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

// While a body grows, what is held is bounded by what it is.
func TestMemoryOfALargeBody(t *testing.T) {
	const size = 34 << 20
	for _, declared := range []int64{size, -1, 1 << 40, 10} {
		copied := 0
		for have := 0; have < size; {
			next := room(have, declared)
			if next <= have {
				t.Fatalf("declared %d: %d bytes have come and room is made for %d", declared, have, next)
			}
			held, bound := have+next, have*9/4+slack
			if declared == size {
				bound = 2*size + slack
			}
			if held > bound {
				t.Errorf("declared %d: %d bytes are held when %d have come", declared, held, have)
			}
			copied += have
			have = next
		}
		if copied > 5*size {
			t.Errorf("declared %d: %d MiB are copied to read %d", declared, copied>>20, size>>20)
		}
	}
}

func TestFill(t *testing.T) {
	want := bytes.Repeat([]byte("0123456789"), 1<<18)
	for name, in := range map[string]io.Reader{
		"at once": bytes.NewReader(want), "byte by byte": iotest.OneByteReader(bytes.NewReader(want[:5000])),
		"end with the data": iotest.DataErrReader(bytes.NewReader(want)), "empty": strings.NewReader(""),
	} {
		for _, declared := range []int64{-1, int64(len(want)), 7} {
			if r, ok := in.(io.Seeker); ok {
				_, _ = r.Seek(0, io.SeekStart)
			}
			var b bytes.Buffer
			if err := fill(&b, in, declared); err != nil || !bytes.HasPrefix(want, b.Bytes()) {
				t.Errorf("%s, declared %d: %d bytes, %v", name, declared, b.Len(), err)
			}
			if name == "at once" && b.Len() != len(want) {
				t.Errorf("declared %d: %d of %d bytes", declared, b.Len(), len(want))
			}
		}
	}
	broken := errors.New("reset")
	if err := fill(new(bytes.Buffer), iotest.ErrReader(broken), -1); !errors.Is(err, broken) {
		t.Errorf("a broken reader: %v", err)
	}
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
		p, refused := Read(req, req.Body, limit, new(Pool))
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
