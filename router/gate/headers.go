package gate

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/textproto"
	"strings"
)

// Forwarded are the client's headers as the engine gets them: everything but
// what concerns one connection only, credentials, what would let a client
// choose its own place or priority, what warden sets itself, and names with an
// underscore, which some readers take for a dash: X_Api_Key for X-Api-Key.
func Forwarded(in http.Header) http.Header {
	out := in.Clone()
	for _, line := range in["Connection"] {
		for _, name := range strings.Split(line, ",") {
			out.Del(textproto.TrimString(name))
		}
	}
	for _, name := range []string{
		"Connection", "Proxy-Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Expect",
		"Authorization", "X-Api-Key", "Proxy-Authorization", "Proxy-Authenticate", "Cookie",
		"X-Vllm-Priority", "X-Data-Parallel-Rank",
		"Accept-Encoding", "Content-Encoding", "Content-Length",
		"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip",
		"X-Request-Id", "X-Session-Id", "Origin",
	} {
		out.Del(name)
	}
	for name := range out {
		if strings.Contains(name, "_") {
			delete(out, name)
		}
	}
	return out
}

// Returned copies an engine's response headers for the client.
func Returned(to, from http.Header) {
	drop := map[string]bool{}
	for _, line := range from["Connection"] {
		for _, name := range strings.Split(line, ",") {
			drop[textproto.CanonicalMIMEHeaderKey(textproto.TrimString(name))] = true
		}
	}
	for name, values := range from {
		switch name {
		case "Connection", "Proxy-Connection", "Keep-Alive", "Trailer", "Transfer-Encoding", "Upgrade", "Te",
			"Date", "X-Request-Id", "Access-Control-Allow-Origin", "Access-Control-Allow-Credentials",
			"Access-Control-Allow-Methods", "Access-Control-Allow-Headers":
			continue
		}
		if !drop[name] {
			to[name] = append([]string(nil), values...)
		}
	}
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

func newRequestID() string { return fmt.Sprintf("req_%016x%016x", rand.Uint64(), rand.Uint64()) }
