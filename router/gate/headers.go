package gate

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"net/http"
	"net/textproto"
	"strings"
)

// Forwarded are the client's headers as the engine gets them: everything but
// what concerns one connection only, credentials, what would let a client
// choose its own place or priority, what warden sets itself, and names with an
// underscore, which some readers take for a dash: X_Api_Key for X-Api-Key.
// Values are shared with in.
func Forwarded(in http.Header) http.Header {
	out := make(http.Header, len(in)) // what falls away is room for what warden adds
	hop := in["Connection"]
	for name, values := range in {
		switch name {
		case "Connection", "Proxy-Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Expect",
			"Authorization", "X-Api-Key", "Proxy-Authorization", "Proxy-Authenticate", "Cookie",
			"X-Vllm-Priority", "X-Data-Parallel-Rank",
			"Accept-Encoding", "Content-Encoding", "Content-Length",
			"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip",
			"X-Request-Id", "X-Session-Id", "Origin":
			continue
		}
		if !strings.Contains(name, "_") && !listed(hop, name) {
			out[name] = values
		}
	}
	return out
}

// Returned copies an engine's response headers for the client. Values are shared
// with from.
func Returned(to, from http.Header) {
	hop := from["Connection"]
	for name, values := range from {
		switch name {
		case "Connection", "Proxy-Connection", "Keep-Alive", "Trailer", "Transfer-Encoding", "Upgrade", "Te",
			"Date", "X-Request-Id", "Access-Control-Allow-Origin", "Access-Control-Allow-Credentials",
			"Access-Control-Allow-Methods", "Access-Control-Allow-Headers":
			continue
		}
		if !listed(hop, name) {
			to[name] = values
		}
	}
}

// listed reports whether the lines of a Connection header name a header: it then
// concerns that one connection only.
func listed(lines []string, name string) bool {
	for _, line := range lines {
		for one := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(textproto.TrimString(one), name) {
				return true
			}
		}
	}
	return false
}

// RequestID takes over the client's own id when it is harmless in logs and
// headers, and makes one otherwise.
func RequestID(req *http.Request) string {
	id := req.Header.Get("X-Request-Id")
	if len(id) == 0 || len(id) > 128 {
		return newRequestID()
	}
	for i := range len(id) {
		if c := id[i]; c <= ' ' || c > '~' || c == '"' || c == '\\' {
			return newRequestID()
		}
	}
	return id
}

func newRequestID() string {
	var id [16]byte
	binary.BigEndian.PutUint64(id[:], rand.Uint64())
	binary.BigEndian.PutUint64(id[8:], rand.Uint64())
	return "req_" + hex.EncodeToString(id[:])
}
