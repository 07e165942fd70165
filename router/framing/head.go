package framing

import (
	"bytes"
	"strconv"
)

// head is what a request's head says about the end of its request.
type head struct {
	begun     bool // the request line has been read
	hasLength bool
	length    uint64
	chunked   bool
	current   bool // HTTP/1.1 for sure: older readers know no chunks
}

// add judges one line; done at the empty line behind the last. Of a long line
// only the beginning is given.
func (h *head) add(text []byte, long bool) (done bool, err error) {
	switch {
	case !h.begun:
		if len(text) == 0 {
			return false, nil // RFC 9112 2.2 wants it to be ignored
		}
		h.begun = true
		h.current = !long && bytes.HasSuffix(text, []byte(" HTTP/1.1"))
		return false, nil
	case len(text) == 0:
		return true, h.whole()
	case text[0] == ' ' || text[0] == '\t':
		return false, ErrFolded
	}
	name, value, found := bytes.Cut(text, []byte(":"))
	if !found {
		return false, nil // a long name; net/http refuses a line without colon
	}
	value = bytes.Trim(value, " \t")
	// With white space around the name, some readers see the header and others
	// do not.
	plain := bytes.Trim(name, " \t\r\v\f")
	padded := len(plain) != len(name)
	switch {
	case bytes.EqualFold(plain, []byte("Content-Length")):
		return false, h.contentLength(value, long || padded)
	case bytes.EqualFold(plain, []byte("Transfer-Encoding")):
		if long || padded || h.chunked || !bytes.EqualFold(value, []byte("chunked")) {
			return false, ErrEncoding
		}
		h.chunked = true
	}
	return false, nil
}

func (h *head) contentLength(value []byte, doubtful bool) error {
	if doubtful || h.hasLength || len(value) == 0 || len(value) > 16 {
		return ErrLength
	}
	for _, c := range value {
		if c < '0' || c > '9' {
			return ErrLength
		}
	}
	h.hasLength = true
	h.length, _ = strconv.ParseUint(string(value), 10, 64) // at most 16 digits
	return nil
}

func (h *head) whole() error {
	switch {
	case h.chunked && h.hasLength:
		return ErrBoth
	case h.chunked && !h.current:
		return ErrEncoding
	}
	return nil
}
