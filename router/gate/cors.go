package gate

import "net/http"

// Preflight answers a listed origin's CORS questions and marks every answer
// for it as readable; it reports whether the request is done with.
func (g Guard) Preflight(w http.ResponseWriter, req *http.Request) bool {
	origin, listed := g.Origin(req)
	if !listed {
		return false
	}
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", origin)
	h.Add("Vary", "Origin")
	if req.Method != http.MethodOptions || req.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	h.Set("Access-Control-Allow-Methods", "GET, HEAD, POST")
	h.Set("Access-Control-Allow-Headers", req.Header.Get("Access-Control-Request-Headers"))
	h.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
	return true
}
