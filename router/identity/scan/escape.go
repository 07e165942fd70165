package scan

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/bits"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// decoded returns what raw, a JSON string's inside, stands for; raw itself when
// it holds no escapes.
func decoded(raw []byte) []byte {
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw
	}
	return unescape(make([]byte, 0, len(raw)), raw)
}

// unescape appends raw, a JSON string's inside, to dst in decoded form.
func unescape(dst, raw []byte) []byte {
	dst, _ = unescapePart(dst, raw, math.MaxInt)
	return dst
}

// short has what stands for the character behind a backslash, 0 for nothing.
var short = [256]byte{'n': '\n', 't': '\t', 'r': '\r', 'b': '\b', 'f': '\f', '"': '"', '\\': '\\', '/': '/'}

// unescapePart is unescape that stops once dst holds limit bytes or a few
// more, and returns what is left of raw. Unknown escapes are kept as they
// stand; broken ones and lone surrogates become U+FFFD.
func unescapePart(dst, raw []byte, limit int) (out, rest []byte) {
	for len(dst) < limit && len(raw) > 0 {
		if n := len(dst); len(raw) > 8 && n+8 <= min(limit, cap(dst)) {
			// Eight bytes at once, of which those before an escape count.
			x := binary.LittleEndian.Uint64(raw)
			binary.LittleEndian.PutUint64(dst[n:n+8], x)
			plain := plainBytes(x)
			dst, raw = dst[:n+plain], raw[plain:]
			if plain == 8 {
				continue
			}
		} else if i := plainLen(raw); i > 0 {
			i = min(i, limit-len(dst))
			dst, raw = append(dst, raw[:i]...), raw[i:]
			continue
		}
		used := 2
		switch e := raw[1]; {
		case short[e] != 0:
			dst = append(dst, short[e])
		case e == 'u':
			var r rune
			r, used = unescapeRune(raw)
			dst = utf8.AppendRune(dst, r)
		default:
			dst = append(dst, '\\', e)
		}
		raw = raw[used:]
	}
	return dst, raw
}

// unescapeRune decodes the \uXXXX at the start of raw, and the second half of
// a surrogate pair when one follows. It returns the bytes used, at least 2.
func unescapeRune(raw []byte) (rune, int) {
	high, ok := hex4(raw)
	if !ok {
		return utf8.RuneError, 2
	}
	if !utf16.IsSurrogate(high) {
		return high, 6
	}
	if low, ok := hex4(raw[6:]); ok {
		if r := utf16.DecodeRune(high, low); r != utf8.RuneError {
			return r, 12
		}
	}
	return utf8.RuneError, 6
}

// hex4 decodes the \uXXXX at the start of raw.
func hex4(raw []byte) (r rune, ok bool) {
	if len(raw) < 6 || raw[0] != '\\' || raw[1] != 'u' {
		return 0, false
	}
	for _, b := range raw[2:6] {
		switch {
		case b >= '0' && b <= '9':
			b -= '0'
		case b >= 'a' && b <= 'f':
			b -= 'a' - 10
		case b >= 'A' && b <= 'F':
			b -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(b)
	}
	return r, true
}

// plainPart appends raw to dst with each \uXXXX replaced by the character, or
// by its shorter escape where JSON demands one. It stops once
// dst holds limit bytes or a few more, and returns what is left.
func plainPart(dst, raw []byte, limit int) (out, rest []byte) {
	for len(dst) < limit && len(raw) > 0 {
		if i := plainLen(raw); i > 0 {
			i = min(i, limit-len(dst))
			dst, raw = append(dst, raw[:i]...), raw[i:]
			continue
		}
		if raw[1] == 'u' {
			r, used := unescapeRune(raw)
			dst, raw = appendPlain(dst, r), raw[used:]
		} else {
			dst, raw = append(dst, raw[:2]...), raw[2:]
		}
	}
	return dst, raw
}

// plainLen is the number of bytes before the first escape. In source code that
// is near, so eight bytes are looked at before a search is begun.
func plainLen(raw []byte) int {
	if len(raw) > 8 {
		if n := plainBytes(binary.LittleEndian.Uint64(raw)); n < 8 {
			return n
		}
	}
	if i := bytes.IndexByte(raw, '\\'); i >= 0 && i+1 < len(raw) {
		return i
	}
	return len(raw)
}

// plainBytes is the number of bytes before the first backslash among eight.
func plainBytes(x uint64) int {
	const ones = 0x0101010101010101
	x ^= ones * '\\'
	return bits.TrailingZeros64((x-ones)&^x&(ones<<7)) / 8
}

func appendPlain(dst []byte, r rune) []byte {
	const hex = "0123456789abcdef"
	switch {
	case r == '"', r == '\\':
		return append(dst, '\\', byte(r))
	case r >= 0x20:
		return utf8.AppendRune(dst, r)
	}
	if i := strings.IndexRune("\n\t\r\b\f", r); i >= 0 {
		return append(dst, '\\', "ntrbf"[i])
	}
	return append(dst, `\u00`+hex[r>>4:r>>4+1]+hex[r&15:r&15+1]...)
}
