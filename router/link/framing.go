package link

import "errors"

// kind is how the end of a body is told.
type kind int

const (
	none       kind = iota // there is no body
	sized                  // Content-Length
	chunked                // Transfer-Encoding: chunked
	untilClose             // the end of the connection
)

// framing finds the body in the bytes that follow a head, at whatever byte they
// are cut into pieces. The zero value is that of an answer without a body.
//
// In chunked bodies it demands what RFC 9112 section 7.1 says, line ends
// included: a body that two programs could read differently is refused. The
// trailer is read and left out.
type framing struct {
	kind kind
	left int64 // bytes to come of a sized body or of the current chunk

	at     place
	digits int // of the current chunk's size
	excess int // bytes of lines that carry no data, see waste
}

// place is where in a chunked body we are.
type place int

const (
	size        place = iota // in the digits of a chunk's size
	padding                  // in white space behind them
	extension                // behind a semicolon, up to the line's end
	sizeLF                   // the line feed of that line
	data                     // in the chunk's data
	dataCR                   // behind them
	dataLF                   //
	trailer                  // at the beginning of a line of the trailer
	trailerLine              // in one
	trailerLF                // its line feed
	endLF                    // the last line feed
	end                      // the body is complete
)

// Chunk extensions and trailers carry nothing for us. maxWaste bounds them, in
// bytes: 16 a chunk are free, and twice as many as there are data.
const (
	maxWaste  = 16 << 10
	freeWaste = 16
	maxDigits = 15 // of a size, so that it fits
)

var errChunks = errors.New("the engine's answer is not properly chunked")

// over reports whether the body is complete.
func (f *framing) over() bool {
	switch f.kind {
	case sized:
		return f.left == 0
	case chunked:
		return f.at == end
	case untilClose:
		return false
	}
	return true
}

// closed is told that the connection has ended in the middle of the body, and
// reports whether that was its proper end.
func (f *framing) closed() bool {
	if f.kind != untilClose {
		return false
	}
	f.kind = none
	return true
}

// take takes as much of raw as belongs to the body, and returns the data in it
// and what is left of raw. The data of several chunks are moved together
// within raw. At least one of data, rest and raw is empty: it is called again
// until over, or until there is nothing more in raw.
func (f *framing) take(raw []byte) (body, rest []byte, err error) {
	switch f.kind {
	case chunked:
		return f.chunks(raw)
	case untilClose:
		return raw, nil, nil
	}
	n := int(min(int64(len(raw)), f.left))
	f.left -= int64(n)
	return raw[:n], raw[n:], nil
}

func (f *framing) chunks(raw []byte) (body, rest []byte, err error) {
	from, to := 0, 0 // of raw: the body's data begin at from and end at to
	for i := 0; i < len(raw); {
		switch {
		case f.at == end:
			return raw[from:to], raw[i:], nil
		case f.at == data:
			n := int(min(int64(len(raw)-i), f.left))
			if to == 0 {
				from, to = i, i+n
			} else {
				to += copy(raw[to:], raw[i:i+n])
			}
			i += n
			if f.left -= int64(n); f.left == 0 {
				f.at = dataCR
			}
		case !f.step(raw[i]):
			return raw[from:to], nil, errChunks
		default:
			i++
		}
	}
	return raw[from:to], nil, nil
}

// step takes one byte that is not data; false says that it may not stand there.
func (f *framing) step(b byte) bool {
	switch f.at {
	case size, padding:
		return f.sizeByte(b)
	case extension, trailerLine:
		if b == '\r' {
			f.at++ // to the line feed
			return true
		}
		return b != '\n' && f.waste(1)
	case sizeLF:
		f.at = data
		if f.left == 0 {
			f.at = trailer
		}
		f.digits = 0
		return b == '\n'
	case dataCR:
		f.at = dataLF
		return b == '\r'
	case dataLF:
		f.at = size
		return b == '\n'
	case trailer:
		f.at = trailerLine
		if b == '\r' {
			f.at = endLF
			return true
		}
		return b != '\n' && f.waste(1)
	case trailerLF:
		f.at = trailer
		return b == '\n'
	case endLF:
		f.at = end
		return b == '\n'
	}
	return false
}

// sizeByte takes one byte of a chunk's first line.
func (f *framing) sizeByte(b byte) bool {
	digit := int64(-1)
	switch {
	case b >= '0' && b <= '9':
		digit = int64(b - '0')
	case b >= 'a' && b <= 'f':
		digit = int64(b-'a') + 10
	case b >= 'A' && b <= 'F':
		digit = int64(b-'A') + 10
	}
	if f.at == padding && (digit >= 0 || b == ';') {
		return false
	}
	if digit >= 0 {
		f.left = f.left<<4 | digit
		f.digits++
		return f.digits <= maxDigits && f.waste(1)
	}
	if f.digits == 0 {
		return false
	}
	f.excess = max(0, f.excess-freeWaste-int(min(2*f.left, maxWaste)))
	switch b {
	case '\r':
		f.at = sizeLF
		return true
	case ';':
		f.at = extension
		return f.waste(1)
	case ' ', '\t':
		f.at = padding
		return f.waste(1)
	}
	return false
}

// waste counts bytes that carry no data, and reports whether they are still few.
func (f *framing) waste(n int) bool {
	f.excess += n
	return f.excess <= maxWaste
}
