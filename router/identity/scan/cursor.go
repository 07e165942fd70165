package scan

import "strconv"

// cursor walks JSON text forward, once. It accepts everything that Python's
// json module accepts (the engine's parser, so that both see the same
// members) and some things it does not: values that nobody asked for are only
// matched bracket by bracket. The first error sets bad and ends the walk;
// every method is then a no-op, so callers check once, at the end.
//
// Skipping never recurses, so depth costs neither stack nor time.
type cursor struct {
	src []byte
	pos int
	bad bool

	marks  marks // of the block that ends at marked, for quoted
	marked int   // 0: of none
}

// span is a half-open range of offsets into the body.
type span struct{ start, end int }

func (s span) empty() bool          { return s.end <= s.start }
func (s span) of(src []byte) []byte { return src[s.start:s.end] }
func (c *cursor) fail()             { c.bad, c.pos = true, len(c.src) }
func isSpace(b byte) bool           { return b == ' ' || b == '\n' || b == '\t' || b == '\r' }
func isLiteral(b byte) bool {
	return b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' ||
		b == '-' || b == '+' || b == '.'
}

// next skips white space and returns the byte there without consuming it;
// 0 at the end.
func (c *cursor) next() byte {
	for c.pos < len(c.src) {
		if b := c.src[c.pos]; !isSpace(b) {
			return b
		}
		c.pos++
	}
	return 0
}

// valueAt is where the value begins that comes next.
func (c *cursor) valueAt() int {
	c.next()
	return c.pos
}

// text consumes a string and returns it decoded, in its own memory only when
// it holds escapes.
func (c *cursor) text() []byte {
	q := c.quoted()
	if q.slashes == 0 {
		return q.raw
	}
	return unescape(make([]byte, 0, len(q.raw)), q.raw)
}

// optionalText is text for a value that ought to be a string: any other value
// is skipped and yields nil.
func (c *cursor) optionalText() []byte {
	if c.next() == '"' {
		return c.text()
	}
	c.skip()
	return nil
}

// skip consumes any value and returns where it lay.
func (c *cursor) skip() span {
	switch b := c.next(); {
	case b == '"':
		start := c.pos
		c.quoted()
		return span{start, c.pos}
	case b == '{' || b == '[':
		return c.skipNested()
	case isLiteral(b):
		start := c.pos
		for c.pos < len(c.src) && isLiteral(c.src[c.pos]) {
			c.pos++
		}
		return span{start, c.pos}
	}
	c.fail()
	return span{}
}

func (c *cursor) skipNested() span {
	start := c.pos
	for depth := 0; c.pos < len(c.src); {
		switch c.src[c.pos] {
		case '"':
			c.quoted()
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
			if depth == 0 {
				c.pos++
				return span{start, c.pos}
			}
		}
		c.pos++
	}
	c.fail()
	return span{}
}

// members walks an object. visit is called with each decoded key and must
// consume the value. Any other value is skipped. The returned span covers it.
func (c *cursor) members(visit func(key []byte)) span {
	if c.next() != '{' {
		return c.skip()
	}
	start := c.pos
	c.pos++
	if c.next() == '}' {
		c.pos++
		return span{start, c.pos}
	}
	for {
		key := c.text()
		if c.next() != ':' {
			break
		}
		c.pos++
		visit(key)
		switch c.next() {
		case ',':
			c.pos++
			continue
		case '}':
			c.pos++
			return span{start, c.pos}
		}
		break
	}
	c.fail()
	return span{}
}

// elements walks an array; visit must consume each element. Any other value
// is skipped.
func (c *cursor) elements(visit func()) {
	if c.next() != '[' {
		c.skip()
		return
	}
	c.pos++
	if c.next() == ']' {
		c.pos++
		return
	}
	for {
		visit()
		switch c.next() {
		case ',':
			c.pos++
			continue
		case ']':
			c.pos++
			return
		}
		c.fail()
		return
	}
}

// textMember consumes any value and returns the text of an object's member of
// that name; "" when there is none or it is no string.
func (c *cursor) textMember(name string) (value string) {
	c.members(func(key []byte) {
		if string(key) == name {
			value = string(c.optionalText())
			return
		}
		c.skip()
	})
	return value
}

// boolean consumes any value and reports whether it is true.
func (c *cursor) boolean() bool {
	return string(c.skip().of(c.src)) == "true"
}

// integer consumes any value and returns it when it is a number, rounded
// towards zero and held within 0 to 1<<31-1; 0 otherwise.
func (c *cursor) integer() int {
	v, err := strconv.ParseFloat(string(c.skip().of(c.src)), 64)
	switch {
	case err != nil || !(v > 0):
		return 0
	case v > 1<<31-1:
		return 1<<31 - 1
	}
	return int(v)
}
