package framing

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

// crlf writes requests readably.
func crlf(text string) string { return strings.ReplaceAll(text, "\n", "\r\n") }

var samples = []struct {
	name, text string
	want       error
}{
	{"no body", crlf("GET / HTTP/1.1\nHost: a\n\n"), nil},
	{"a length", crlf("POST / HTTP/1.1\nHost: a\nContent-Length: 3\n\nabcGET / HTTP/1.1\nHost: a\n\n"), nil},
	{"a length of 0", crlf("POST / HTTP/1.1\ncontent-length:0\n\nGET / HTTP/1.1\n\n"), nil},
	{"chunks", crlf("POST / HTTP/1.1\nTransfer-Encoding: Chunked\n\n3\nabc\nA\n0123456789\n0\n\nGET / HTTP/1.1\n\n"), nil},
	{"a body that looks like a head", crlf("POST / HTTP/1.1\nContent-Length: 44\n\nA\nContent-Length: 3\nContent-Length: 4\n\n 1234\nGET / HTTP/1.1\n\n"), nil},
	{"long lines", crlf("GET /" + strings.Repeat("x", 300) + " HTTP/1.1\nX-" + strings.Repeat("y", 300) + ": 1\nA: " + strings.Repeat("z", 5000) + "\n\n"), nil},
	{"an empty line before", crlf("\nGET / HTTP/1.1\n\n"), nil},
	{"upload without end", crlf("POST / HTTP/1.1\nContent-Length: 9000000000000000\n\nabc"), nil},

	{"length and chunks", crlf("POST / HTTP/1.1\nContent-Length: 5\nTransfer-Encoding: chunked\n\n0\n\n"), ErrBoth},
	{"chunks and length", crlf("POST / HTTP/1.1\nTransfer-Encoding: chunked\nContent-Length: 5\n\n0\n\n"), ErrBoth},
	{"two lengths", crlf("POST / HTTP/1.1\nContent-Length: 5\nContent-Length: 6\n\nabcdef"), ErrLength},
	{"twice the same length", crlf("POST / HTTP/1.1\nContent-Length: 5\nContent-Length: 5\n\nabcde"), ErrLength},
	{"a list of lengths", crlf("POST / HTTP/1.1\nContent-Length: 5, 5\n\nabcde"), ErrLength},
	{"plus sign", crlf("POST / HTTP/1.1\nContent-Length: +5\n\nabcde"), ErrLength},
	{"minus sign", crlf("POST / HTTP/1.1\nContent-Length: -5\n\nabcde"), ErrLength},
	{"hexadecimal length", crlf("POST / HTTP/1.1\nContent-Length: 0x5\n\nabcde"), ErrLength},
	{"no length", crlf("POST / HTTP/1.1\nContent-Length:\n\nabcde"), ErrLength},
	{"a length that overflows", crlf("POST / HTTP/1.1\nContent-Length: 18446744073709551621\n\nabcde"), ErrLength},
	{"a length far to the right", crlf("POST / HTTP/1.1\nContent-Length:" + strings.Repeat(" ", 300) + "5\n\nabcde"), ErrLength},
	{"space before the colon", crlf("POST / HTTP/1.1\nContent-Length: 5\nContent-Length : 6\n\nabcde"), ErrLength},
	{"tab before the colon", crlf("POST / HTTP/1.1\nContent-Length: 5\nTransfer-Encoding\t: chunked\n\n"), ErrEncoding},
	{"unknown encoding", crlf("POST / HTTP/1.1\nTransfer-Encoding: xchunked\n\n0\n\n"), ErrEncoding},
	{"a list of encodings", crlf("POST / HTTP/1.1\nTransfer-Encoding: gzip, chunked\n\n0\n\n"), ErrEncoding},
	{"two encodings", crlf("POST / HTTP/1.1\nTransfer-Encoding: chunked\nTransfer-Encoding: identity\n\n0\n\n"), ErrEncoding},
	{"vertical tab", crlf("POST / HTTP/1.1\nTransfer-Encoding: \vchunked\n\n0\n\n"), ErrEncoding},
	{"quoted", crlf("POST / HTTP/1.1\nTransfer-Encoding: \"chunked\"\n\n0\n\n"), ErrEncoding},
	{"an encoding far to the right", crlf("POST / HTTP/1.1\nTransfer-Encoding:" + strings.Repeat(" ", 300) + "chunked\n\n0\n\n"), ErrEncoding},
	{"chunks of old", crlf("POST / HTTP/1.0\nConnection: keep-alive\nTransfer-Encoding: chunked\n\n0\n\n"), ErrEncoding},
	{"chunks of unknown age", crlf("POST /?" + strings.Repeat("x", 300) + " HTTP/1.1\nTransfer-Encoding: chunked\n\n0\n\n"), ErrEncoding},
	{"folded", crlf("GET / HTTP/1.1\nX-A: 1\n 2\n\n"), ErrFolded},
	{"folded encoding", crlf("POST / HTTP/1.1\nTransfer-Encoding:\n\tchunked\n\n0\n\n"), ErrEncoding},
	{"folded first line", crlf("POST / HTTP/1.1\n Content-Length: 5\n\n"), ErrFolded},
	{"bare line feed", "GET / HTTP/1.1\nHost: a\n\n", ErrBareLF},
	{"one bare line feed", "GET / HTTP/1.1\r\nX: 1\nContent-Length: 3\r\n\r\n", ErrBareLF},
	{"bare line feed behind a size", "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\nabc\r\n0\r\n\r\n", ErrBareLF},
	{"chunk extension", crlf("POST / HTTP/1.1\nTransfer-Encoding: chunked\n\n3;a=b\nabc\n0\n\n"), ErrChunk},
	{"space behind a size", crlf("POST / HTTP/1.1\nTransfer-Encoding: chunked\n\n3 \nabc\n0\n\n"), ErrChunk},
	{"size with a sign", crlf("POST / HTTP/1.1\nTransfer-Encoding: chunked\n\n+3\nabc\n0\n\n"), ErrChunk},
	{"size with 0x", crlf("POST / HTTP/1.1\nTransfer-Encoding: chunked\n\n0x3\nabc\n0\n\n"), ErrChunk},
	{"empty size", crlf("POST / HTTP/1.1\nTransfer-Encoding: chunked\n\n\nabc\n0\n\n"), ErrChunk},
	{"size that overflows", crlf("POST / HTTP/1.1\nTransfer-Encoding: chunked\n\n10000000000000003\nabc\n0\n\n"), ErrChunk},
	{"data longer than its size", crlf("POST / HTTP/1.1\nTransfer-Encoding: chunked\n\n3\nabcd\n0\n\n"), ErrChunk},
	{"trailer", crlf("POST / HTTP/1.1\nTransfer-Encoding: chunked\n\n3\nabc\n0\nX: 1\n\n"), ErrTrailer},
}

func TestSamples(t *testing.T) {
	for _, c := range samples {
		for _, step := range []int{1, 7, len(c.text)} {
			var s Scanner
			var err error
			for at := 0; at < len(c.text) && err == nil; at += step {
				err = s.Next([]byte(c.text[at:min(at+step, len(c.text))]))
			}
			if !errors.Is(err, c.want) {
				t.Errorf("%s, %d bytes at once: %v, want %v", c.name, step, err, c.want)
			}
			if after := s.Next([]byte(crlf("GET / HTTP/1.1\n\n"))); err != nil && after == nil {
				t.Errorf("%s: accepted again after the fault", c.name)
			}
		}
	}
}

// requestEnds says where net/http sees requests end that it accepts.
func requestEnds(text []byte) (ends []int) {
	under := bytes.NewReader(text)
	r := bufio.NewReader(under)
	for {
		req, err := http.ReadRequest(r)
		if err != nil {
			return ends
		}
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return ends
		}
		ends = append(ends, len(text)-under.Len()-r.Buffered())
	}
}

// scannedEnds says where a Scanner sees requests end before the first fault,
// and where that is.
func scannedEnds(text []byte) (ends []int, fault int) {
	var s Scanner
	for i := range text {
		before := s.at != inHead || s.head.begun
		if s.Next(text[i:i+1]) != nil {
			return ends, i
		}
		if before && s.at == inHead && !s.head.begun {
			ends = append(ends, i+1)
		}
	}
	return ends, len(text)
}

// What passes is read by net/http with the same ends: whatever is sent, the two
// never disagree about where a request begins.
func FuzzAgreesWithTheServer(f *testing.F) {
	for _, c := range samples {
		f.Add([]byte(c.text))
		f.Add([]byte(c.text + crlf("POST /x HTTP/1.1\nTransfer-Encoding: chunked\n\n1\na\n0\n\n")))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		theirs := requestEnds(text)
		ours, fault := scannedEnds(text)
		for i, end := range theirs {
			if fault < end {
				return // refused before net/http has it whole
			}
			if i >= len(ours) || ours[i] != end {
				t.Fatalf("net/http sees requests end at %v, we at %v (fault at %d)", theirs, ours, fault)
			}
		}
	})
}

func BenchmarkScanner(b *testing.B) {
	head := []byte(crlf("POST /v1/chat/completions HTTP/1.1\nHost: 127.0.0.1:8000\nUser-Agent: agent/1.0\nAccept: */*\n" +
		"Authorization: Bearer 0123456789012345678901234567890123456789\nContent-Type: application/json\n" +
		"X-Session-Id: 0123456789abcdef\nAccept-Encoding: gzip, deflate\nContent-Length: 61440\n\n"))
	body := make([]byte, 61440)
	b.SetBytes(int64(len(head) + len(body)))
	var s Scanner
	for b.Loop() {
		if s.Next(head) != nil || s.Next(body) != nil {
			b.Fatal(s.bad)
		}
	}
}
