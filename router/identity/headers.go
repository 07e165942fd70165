package identity

import (
	"net/http"
	"strings"
)

// headers are a request's headers under normalised names: lower case, with
// hyphens for underscores, since clients and proxies write both. The value is
// the first one that is usable as an id.
type headers map[string]header

type header struct{ raw, value string }

func normalHeaders(in http.Header) headers {
	out := make(headers, len(in))
	for name, values := range in {
		for _, v := range values {
			value, ok := usable(v)
			if !ok {
				continue
			}
			// Two spellings of one name: the hyphen sorts first and wins, so that
			// the answer does not depend on the order of a map.
			key := normalName(name)
			if old, seen := out[key]; !seen || name < old.raw {
				out[key] = header{name, value}
			}
			break
		}
	}
	return out
}

func normalName(name string) string {
	return strings.ReplaceAll(strings.ToLower(name), "_", "-")
}

func (h headers) get(name string) string { return h[name].value }

// first returns the first of the named headers that is present, and its name.
func (h headers) first(names ...string) (name, value string) {
	for _, n := range names {
		if v := h[n].value; v != "" {
			return n, v
		}
	}
	return "", ""
}

// vendorSession returns the header x-<vendor>-session-id, whoever the vendor
// is. It takes the first by name when there are several. A tool server's
// session is none of the model's.
func (h headers) vendorSession() (name, value string) {
	for n, v := range h {
		if strings.HasPrefix(n, "x-") && strings.HasSuffix(n, "-session-id") &&
			!strings.Contains(n, "parent") && n != "x-mcp-session-id" && (name == "" || n < name) {
			name, value = n, v.value
		}
	}
	return name, value
}
