package identity

import (
	"net/http"
	"strings"
)

// headers are a request's headers under normalised names: lower case, with
// hyphens for underscores, since clients and proxies write both. The value is
// the first one that is usable as an id. There are some dozen, and most of the
// names asked for are missing: comparing them all costs less than a map.
type headers []header

type header struct{ raw, name, value string }

func normalHeaders(in http.Header) headers {
	out := make(headers, 0, len(in))
	for name, values := range in {
		for _, v := range values {
			if value, ok := usable(v); ok {
				out = append(out, header{raw: name, value: value})
				break
			}
		}
	}
	out.normalise()
	// Two spellings of one name: the hyphen sorts first and wins, so that the
	// answer does not depend on the order of a map.
	for i := range out {
		for j := range i {
			if out[i].name == out[j].name && out[i].raw < out[j].raw {
				out[i], out[j] = out[j], out[i]
			}
		}
	}
	return out
}

// normalise writes all names into one string.
func (h headers) normalise() {
	size := 0
	for _, one := range h {
		size += len(one.raw)
	}
	all := make([]byte, 0, size)
	for _, one := range h {
		all = appendNormal(all, one.raw)
	}
	rest := string(all)
	for i := range h {
		h[i].name, rest = rest[:len(h[i].raw)], rest[len(h[i].raw):]
	}
}

func normalName(name string) string { return string(appendNormal(nil, name)) }

func appendNormal(dst []byte, name string) []byte {
	for i := range len(name) {
		c := name[i]
		switch {
		case c == '_':
			c = '-'
		case c >= 'A' && c <= 'Z':
			c += 'a' - 'A'
		}
		dst = append(dst, c)
	}
	return dst
}

func (h headers) get(name string) string {
	for i := range h {
		if h[i].name == name {
			return h[i].value
		}
	}
	return ""
}

// first returns the first of the named headers that is present, and its name.
func (h headers) first(names ...string) (name, value string) {
	for _, n := range names {
		if v := h.get(n); v != "" {
			return n, v
		}
	}
	return "", ""
}

// vendorSession returns the header x-<vendor>-session-id, whoever the vendor
// is. It takes the first by name when there are several. A tool server's
// session is none of the model's.
func (h headers) vendorSession() (name, value string) {
	for _, one := range h {
		n := one.name
		if strings.HasPrefix(n, "x-") && strings.HasSuffix(n, "-session-id") &&
			!strings.Contains(n, "parent") && n != "x-mcp-session-id" && (name == "" || n < name) {
			name, value = n, one.value
		}
	}
	return name, value
}
