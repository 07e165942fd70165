package router

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/lm-warden/warden/router/keys"
)

// credential is what a client identifies itself with: OpenAI's clients send a
// Bearer token, Anthropic's either that or x-api-key.
func credential(h http.Header) string {
	scheme, token, found := strings.Cut(h.Get("Authorization"), " ")
	if found && strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(token)
	}
	return h.Get("X-Api-Key")
}

// authorise says why a client may not use a route, nil when it may. A request
// that engines serve counts for its key from here, before its body is read,
// until release.
func (x *exchange) authorise(rt route) *refusal {
	guard := x.router.opts.Keys
	if guard == nil || rt.open {
		return nil
	}
	key, known := guard.Find(credential(x.req.Header))
	if !known {
		r := forbid(http.StatusUnauthorized,
			"missing or unknown API key; send it as \"Authorization: Bearer KEY\" or \"x-api-key: KEY\"")
		r.Code = "invalid_api_key"
		return r
	}
	x.keyID = key.String()
	if !key.Scope.Allows(rt.scope) {
		r := forbid(http.StatusForbidden, fmt.Sprintf("the API key %s may %s; this needs %s", key, key.Scope, rt.scope))
		r.Code = "insufficient_scope"
		return r
	}
	if rt.scope != keys.Infer {
		return nil
	}
	if !guard.Begin(key) {
		r := forbid(http.StatusTooManyRequests, fmt.Sprintf(
			"the API key %s has %d requests in flight, as many as it may; send this one when another has ended", key, key.MaxInFlight))
		r.Code, r.retryAfter = "key_limit", time.Second
		return r
	}
	x.counted = &key
	return nil
}

// release ends what authorise has begun to count.
func (x *exchange) release() {
	if x.counted != nil {
		x.router.opts.Keys.End(*x.counted)
	}
}
