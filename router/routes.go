package router

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/lm-warden/warden/router/dialect"
	"github.com/lm-warden/warden/router/keys"
)

// route is what one exact path does.
type route struct {
	methods []string
	api     dialect.API
	open    bool       // needs no key
	scope   keys.Scope // any of these is enough; engines serve what needs Infer alone
	serve   func(*Router, *exchange)
}

func (rt route) allows(method string) bool { return slices.Contains(rt.methods, method) }

// routeOf finds the route of a request. The list is closed: engines have
// dozens of other paths, some of which need no key, stop the engine or run
// code. A path counts only as it is written below: no encoded letters, no
// absolute form, no dots. The query is not looked at.
func routeOf(req *http.Request) (route, bool) {
	look := []string{http.MethodGet, http.MethodHead}
	if modelAsked(req) != "" {
		return route{methods: look, api: shapeOf(req), scope: keys.Infer | keys.Read, serve: (*Router).serveModel}, true
	}
	if req.URL.RawPath != "" || req.URL.Host != "" {
		return route{api: shapeOf(req)}, false
	}
	post := func(api dialect.API) (route, bool) {
		return route{methods: []string{http.MethodPost}, api: api, scope: keys.Infer, serve: (*Router).serveEngine}, true
	}
	switch req.URL.Path {
	case "/v1/chat/completions":
		return post(dialect.Chat)
	case "/v1/completions":
		return post(dialect.Completions)
	case "/v1/responses":
		return post(dialect.Responses)
	case "/v1/embeddings":
		return post(dialect.Embeddings)
	case "/v1/messages":
		return post(dialect.Messages)
	case "/v1/messages/count_tokens":
		return post(dialect.CountTokens)
	case "/tokenize", "/detokenize":
		return post(dialect.Plain)
	case "/v1/models":
		// Clients list the models before they ask for one.
		return route{methods: look, api: shapeOf(req), scope: keys.Infer | keys.Read, serve: (*Router).serveModels}, true
	case "/health", "/healthz":
		return route{methods: look, open: true, serve: (*Router).serveHealth}, true
	case "/", "/api/hello":
		return route{methods: look, open: true, serve: (*Router).serveHello}, true
	case "/metrics":
		return route{methods: look, scope: keys.Read, serve: (*Router).serveMetrics}, true
	}
	return route{api: shapeOf(req)}, false
}

// modelAsked is the name in /v1/models/NAME, "" on other paths. Names of
// repositories hold a slash, which clients encode; the name is looked up here
// and reaches no engine, so its letters may be encoded.
func modelAsked(req *http.Request) string {
	const list = "/v1/models/"
	if req.URL.Host != "" || !strings.HasPrefix(req.URL.EscapedPath(), list) {
		return ""
	}
	return strings.TrimPrefix(req.URL.Path, list)
}

// shapeOf guesses whose error shape a client reads where the path does not
// tell: Anthropic's clients always send their version header.
func shapeOf(req *http.Request) dialect.API {
	if req.Header.Get("Anthropic-Version") != "" || strings.HasPrefix(req.URL.Path, "/v1/messages") {
		return dialect.Messages
	}
	return dialect.Plain
}

func unknownPath(req *http.Request) refusal {
	r := forbid(http.StatusNotFound, fmt.Sprintf("no such path: %s %s", req.Method, req.URL.Path))
	r.Code = "not_found"
	return *r
}

func wrongMethod(req *http.Request, rt route) refusal {
	r := forbid(http.StatusMethodNotAllowed,
		fmt.Sprintf("%s does not accept %s, only %s", req.URL.Path, req.Method, strings.Join(rt.methods, ", ")))
	r.allow = strings.Join(rt.methods, ", ")
	return *r
}

// serveHealth says whether warden itself answers and how many replicas accept
// turns. It takes no lock that a request in flight could hold for long.
func (r *Router) serveHealth(x *exchange) {
	ready, total := 0, 0
	for _, d := range r.models.Load().deployments {
		a, n := d.Readiness()
		ready, total = ready+a, total+n
	}
	x.answerJSON(http.StatusOK, map[string]any{"status": "ok", "replicas_ready": ready, "replicas": total})
}

// serveHello answers the probes that clients send before their first request.
func (r *Router) serveHello(x *exchange) {
	x.answerJSON(http.StatusOK, map[string]any{"service": "warden"})
}

func (r *Router) serveMetrics(x *exchange) {
	if r.opts.Metrics == nil {
		x.refuse(unknownPath(x.req))
		return
	}
	x.deadlines.BeginWrite()
	defer x.deadlines.EndWrite()
	r.opts.Metrics.ServeHTTP(x.w, x.req)
}
