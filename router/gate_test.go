package router

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/lm-warden/warden/router/gate"
)

// Everything a vLLM 0.32 server routes that is not on the list, and ways to
// write listed paths differently.
func TestUnlistedPathsAre404(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, setup{engines: 1})
		for _, path := range strings.Fields(`
			/docs /redoc /openapi.json /version /ping /load /tokenizer_info /server_info /invocations
			/v1/chat/completions/render /v1/chat/completions/derender /v1/chat/completions/batch /v1/completions/render
			/v1/responses/resp_1 /v1/responses/resp_1/cancel /v1/score /v1/rerank /v1/pooling /v1/audio/transcriptions
			/v1/audio/translations /v1/realtime /v1/systemone /v1/load_lora_adapter /v1/unload_lora_adapter /v1/files
			/v2/embed /v2/rerank /v2/chat /inference/v1/generate /inference/v1/x /cohere/v2/chat
			/pooling /classify /score /rerank /generative_scoring /kv_event_sources /scale_elastic_ep /is_scaling_elastic_ep
			/sleep /wake_up /is_sleeping /reset_prefix_cache /reset_mm_cache /reset_encoder_cache /pause /resume /is_paused
			/abort_requests /collective_rpc /update_weights /init_weight_transfer_engine /start_profile /stop_profile /sim/fault
			/v1 /v1/ /V1/models //v1/models /v1//models /v1/models/ /v1/./models /v1/x/../models /v1%2Fmodels /v1/%6dodels
			/v1/chat/completions/ /v1/messages/ /v1/messages/count_tokens/x /v1beta/models/m:streamGenerateContent /health/
		`) {
			for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodPut, http.MethodDelete} {
				r := f.do(f.request(t.Context(), method, path, "{}"))
				if r.status != http.StatusNotFound {
					t.Errorf("%s %s: %d, want 404", method, path, r.status)
				}
				if message := decodeJSON(t, r.body)["error"]; message == nil {
					t.Errorf("%s %s: no error in %q", method, path, r.body)
				}
			}
		}
		if n := len(f.engine("r0").requests()); n != 0 {
			t.Errorf("%d of them reached the engine", n)
		}
	})
}

func TestListedPathsAndMethods(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, setup{engines: 1})
		posts := []string{"/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/embeddings", "/v1/messages",
			"/v1/messages/count_tokens", "/tokenize", "/detokenize"}
		for _, path := range posts {
			if r := f.post(path+"?beta=true&x=%2F", chatBody("x")); r.status != 200 {
				t.Errorf("POST %s: %d %s", path, r.status, r.body)
			}
			got := f.engine("r0").requests()
			if last := got[len(got)-1]; last.path != path || last.query != "beta=true&x=%2F" {
				t.Errorf("POST %s reached the engine as %s?%s", path, last.path, last.query)
			}
			r := f.do(f.request(t.Context(), http.MethodGet, path, ""))
			if r.status != http.StatusMethodNotAllowed || r.header.Get("Allow") != "POST" {
				t.Errorf("GET %s: %d, Allow %q", path, r.status, r.header.Get("Allow"))
			}
		}
		for _, path := range []string{"/", "/api/hello", "/health", "/healthz", "/v1/models"} {
			for _, method := range []string{http.MethodGet, http.MethodHead} {
				r := f.do(f.request(t.Context(), method, path, ""))
				if r.status != 200 || (r.body == "") != (method == http.MethodHead) {
					t.Errorf("%s %s: %d %q", method, path, r.status, r.body)
				}
			}
			if r := f.post(path, "{}"); r.status != http.StatusMethodNotAllowed || r.header.Get("Allow") != "GET, HEAD" {
				t.Errorf("POST %s: %d, Allow %q", path, r.status, r.header.Get("Allow"))
			}
		}
		if n := len(f.engine("r0").requests()); n != len(posts) {
			t.Errorf("the engine got %d requests, want %d", n, len(posts))
		}
		// The burst of token counts and probes left no conversation behind.
		if m := f.router.Snapshot(10).Models[0]; m.SessionsLive > 5 {
			t.Errorf("%d conversations", m.SessionsLive)
		}
	})
}

func TestErrorShapeFollowsThePath(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, setup{engines: 1})
		for _, c := range []struct {
			path      string
			header    []string
			anthropic bool
		}{
			{"/v1/chat/completions", nil, false}, {"/v1/messages", nil, true}, {"/v1/messages/count_tokens", nil, true},
			{"/v1/messages/nothing", nil, true}, {"/nothing", nil, false}, {"/nothing", []string{"Anthropic-Version", "2026-10-21"}, true},
		} {
			r := f.post(c.path, "not json", c.header...)
			v := decodeJSON(t, r.body)
			if got := v["type"] == "error"; got != c.anthropic || v["error"] == nil {
				t.Errorf("%s: %s", c.path, r.body)
			}
			if r.header.Get("X-Request-Id") == "" {
				t.Errorf("%s: no request id", c.path)
			}
		}
	})
}

func TestWhoMayComeIn(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, setup{engines: 1, options: Options{Hosts: []string{"GPU-box.lan"}, Origins: []string{"http://app.lan:3000"}}})
		for _, c := range []struct {
			name   string
			header []string
			want   int
		}{
			{"localhost", []string{"Host", "localhost:8000"}, 200},
			{"127/8", []string{"Host", "127.1.2.3:8000"}, 200},
			{"IPv6 loopback", []string{"Host", "[::1]:8000"}, 200},
			{"a listed name, other case", []string{"Host", "gpu-BOX.lan:8000"}, 200},
			{"a listed name with a dot", []string{"Host", "gpu-box.lan.:8000"}, 200},
			{"rebound name", []string{"Host", "evil.example"}, 403},
			{"a name ending like ours", []string{"Host", "evil-localhost"}, 403},
			{"localhost as a subdomain", []string{"Host", "localhost.evil.example"}, 403},
			{"no host, only a port", []string{"Host", ":8000"}, 403},
			{"another address", []string{"Host", "10.0.0.1:8000"}, 403},
			{"user part", []string{"Host", "localhost@evil.example"}, 403},
			{"any origin", []string{"Origin", "http://evil.example"}, 403},
			{"origin equal to host", []string{"Origin", "http://localhost:8000"}, 403},
			{"null origin", []string{"Origin", "null"}, 403},
			{"listed origin", []string{"Origin", "http://app.lan:3000", "Sec-Fetch-Site", "cross-site"}, 200},
			{"other port", []string{"Origin", "http://app.lan:3001"}, 403},
			{"cross-site without origin", []string{"Sec-Fetch-Site", "cross-site"}, 403},
			{"same-origin", []string{"Sec-Fetch-Site", "same-origin"}, 200},
		} {
			r := f.post("/v1/chat/completions", chatBody("x"), c.header...)
			if r.status != c.want {
				t.Errorf("%s: %d, want %d (%s)", c.name, r.status, c.want, r.body)
			}
			key := map[string]string{"Host": "allowed_hosts", "Origin": "allowed_origins"}[c.header[0]]
			if c.want == 403 && !strings.Contains(r.body, key) {
				t.Errorf("%s: the answer does not name the setting %s: %s", c.name, key, r.body)
			}
			allowed := r.header.Get("Access-Control-Allow-Origin")
			if (allowed != "") != (c.name == "listed origin") || allowed == "*" {
				t.Errorf("%s: Access-Control-Allow-Origin %q", c.name, allowed)
			}
		}
		var many []string
		for i := range gate.MaxHeaders {
			many = append(many, fmt.Sprintf("X-H%d", i), "v")
		}
		if r := f.post("/v1/chat/completions", chatBody("x"), many...); r.status != 431 {
			t.Errorf("%d header fields: %d, want 431", gate.MaxHeaders+2, r.status)
		}
	})
}

func TestPreflightForListedOriginsOnly(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, setup{engines: 1, options: Options{Origins: []string{"http://app.lan"}}})
		ask := func(origin string) reply {
			return f.do(f.request(t.Context(), http.MethodOptions, "/v1/chat/completions", "",
				"Origin", origin, "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "content-type"))
		}
		if r := ask("http://app.lan"); r.status != 204 || r.header.Get("Access-Control-Allow-Headers") != "content-type" {
			t.Errorf("listed: %d %v", r.status, r.header)
		}
		if r := ask("http://evil.example"); r.status != 403 || r.header.Get("Access-Control-Allow-Methods") != "" {
			t.Errorf("not listed: %d %v", r.status, r.header)
		}
	})
}

func TestKeys(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, setup{engines: 1, options: Options{Keys: someKeys("alpha", "beta")}})
		for _, c := range []struct {
			header []string
			want   int
		}{
			{[]string{"Authorization", "Bearer alpha"}, 200},
			{[]string{"Authorization", "bearer beta"}, 200},
			{[]string{"X-Api-Key", "beta"}, 200},
			{[]string{"Authorization", "Bearer gamma"}, 401},
			{[]string{"Authorization", "Basic alpha"}, 401},
			{[]string{"X-Api-Key", ""}, 401},
			{nil, 401},
		} {
			if r := f.post("/v1/messages", chatBody("x"), c.header...); r.status != c.want {
				t.Errorf("%v: %d, want %d", c.header, r.status, c.want)
			}
		}
		if r := f.do(f.request(t.Context(), "GET", "/v1/models", "")); r.status != 401 {
			t.Errorf("models without a key: %d", r.status)
		}
		if r := f.do(f.request(t.Context(), "GET", "/healthz", "")); r.status != 200 {
			t.Errorf("health without a key: %d", r.status)
		}
		for _, got := range f.engine("r0").requests() {
			if got.header.Get("Authorization") != "" || got.header.Get("X-Api-Key") != "" {
				t.Errorf("the engine got a key: %v", got.header)
			}
		}
		for _, rec := range f.finished() {
			if len(rec.KeyID) != 8 {
				t.Errorf("key id %q", rec.KeyID)
			}
		}
	})
}

func zipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestBodies(t *testing.T) {
	z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	zstded := string(z.EncodeAll([]byte(chatBody("zstd")), nil))
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	bomb := zipped(t, `{"x":"`+strings.Repeat("a", 2<<20)+`"}`)
	odd := `{ "model":"` + testModel + `","messages":[{"role":"user","content":"\u00e9\ud83d\ude00"}],"unknown":{"b":1.0,"a":[1e5,-0]},"top_k": 7 }`
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, setup{engines: 1, options: Options{MaxBody: 1 << 20}})
		for _, c := range []struct {
			name, body string
			header     []string
			want       int
			reaches    string
		}{
			{"unknown fields", odd, nil, 200, odd},
			{"charset", chatBody("x"), []string{"Content-Type", "application/json; charset=utf-8"}, 200, chatBody("x")},
			{"form", chatBody("x"), []string{"Content-Type", "application/x-www-form-urlencoded"}, 415, ""},
			{"plain text", chatBody("x"), []string{"Content-Type", "text/plain"}, 415, ""},
			{"no type", chatBody("x"), []string{"Content-Type", ""}, 415, ""},
			{"gzip", zipped(t, chatBody("gzip")), []string{"Content-Encoding", "gzip"}, 200, chatBody("gzip")},
			{"zstd", zstded, []string{"Content-Encoding", "zstd"}, 200, chatBody("zstd")},
			{"not gzip", chatBody("x"), []string{"Content-Encoding", "gzip"}, 400, ""},
			{"cut gzip", zipped(t, chatBody("x"))[:20], []string{"Content-Encoding", "gzip"}, 400, ""},
			{"brotli", chatBody("x"), []string{"Content-Encoding", "br"}, 415, ""},
			{"too large", `{"x":"` + strings.Repeat("a", 1<<20) + `"}`, nil, 413, ""},
			{"too large once unpacked", bomb, []string{"Content-Encoding", "gzip"}, 413, ""},
			{"empty", "", nil, 400, ""},
			{"not an object", `[1]`, nil, 400, ""},
			{"cut", `{"model":`, nil, 400, ""},
			{"many answers", `{"model":"` + testModel + `","n":129}`, nil, 400, ""},
		} {
			before := len(f.engine("r0").requests())
			r := f.post("/v1/chat/completions", c.body, c.header...)
			if r.status != c.want {
				t.Errorf("%s: %d, want %d (%.200s)", c.name, r.status, c.want, r.body)
			}
			got := f.engine("r0").requests()[before:]
			if (len(got) == 1) != (c.reaches != "") {
				t.Errorf("%s: %d requests reached the engine", c.name, len(got))
			} else if len(got) == 1 && (got[0].body != c.reaches || got[0].header.Get("Content-Encoding") != "") {
				t.Errorf("%s: the engine got %q, want %q", c.name, got[0].body, c.reaches)
			}
		}
	})
}

func TestHeadersToTheEngine(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, setup{engines: 1})
		f.engine("r0").set(func(w http.ResponseWriter, req *http.Request) {
			w.Header().Set("Connection", "X-Hop")
			w.Header().Set("X-Hop", "1")
			w.Header().Set("X-Kept", "1")
			sayHello(w, req)
		})
		r := f.post("/v1/messages", chatBody("x"),
			"Authorization", "Bearer secret", "X-Api-Key", "secret", "Cookie", "a=b", "Proxy-Authorization", "x",
			"Connection", "X-Custom-Hop", "X-Custom-Hop", "1", "Te", "trailers", "Keep-Alive", "1", "Upgrade", "h2c",
			"X-Vllm-Priority", "-5", "X-data-parallel-rank", "3", "X_Vllm_Priority", "-5", "Session_id", "s", "X-Forwarded-For", "10.0.0.1", "Forwarded", "for=x",
			"Accept-Encoding", "gzip, br", "X-Session-Id", "client-session",
			"Anthropic-Version", "2026-10-21", "Anthropic-Beta", "a,b", "X-Unknown", "kept", "User-Agent", "test/1", "X-Request-Id", "my-id")
		got := f.engine("r0").requests()[0].header
		for name, want := range map[string]string{
			"Authorization": "", "X-Api-Key": "", "Cookie": "", "Proxy-Authorization": "", "Connection": "", "X-Custom-Hop": "",
			"Te": "", "Keep-Alive": "", "Upgrade": "", "X-Vllm-Priority": "", "X-Data-Parallel-Rank": "", "X-Forwarded-For": "",
			"Forwarded": "", "Accept-Encoding": "", "X_Vllm_Priority": "", "Session_id": "",
			"Anthropic-Version": "2026-10-21", "Anthropic-Beta": "a,b", "X-Unknown": "kept", "User-Agent": "test/1",
			"X-Request-Id": "my-id", "Content-Type": "application/json",
		} {
			if got.Get(name) != want {
				t.Errorf("the engine got %s: %q, want %q", name, got.Get(name), want)
			}
		}
		if id := got.Get("X-Session-Id"); len(id) != 32 || id == "client-session" {
			t.Errorf("X-Session-Id %q, want the key's hash", id)
		}
		if r.header.Get("X-Hop") != "" || r.header.Get("X-Kept") != "1" || r.header.Get("X-Request-Id") != "my-id" ||
			r.header.Get("X-Warden-Replica") != "r0" || r.header.Get("X-Warden-Reason") != "new" {
			t.Errorf("the client got %v", r.header)
		}
	})
}

func TestServerLimits(t *testing.T) {
	s := NewServer(http.NotFoundHandler())
	if s.WriteTimeout != 0 || s.ReadTimeout != 0 {
		t.Error("a global timeout would cut long answers")
	}
	if s.ReadHeaderTimeout != 10*time.Second || s.MaxHeaderBytes != 64<<10 || s.Protocols.HTTP2() || s.Protocols.UnencryptedHTTP2() {
		t.Errorf("limits: %+v", s)
	}
}

// Forms of a request line that say something else than their path.
func TestRequestLines(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, setup{engines: 1})
		for _, c := range []struct{ name, head, want string }{
			{"plain", "GET /v1/models HTTP/1.1\r\nHost: localhost\r\n", "200"},
			{"absolute form", "GET http://localhost/v1/models HTTP/1.1\r\nHost: localhost\r\n", "404"},
			{"absolute form of another host", "GET http://evil.example/v1/models HTTP/1.1\r\nHost: localhost\r\n", "403"},
			{"tunnel", "CONNECT localhost:80 HTTP/1.1\r\nHost: localhost:80\r\n", "404"},
			{"asterisk", "OPTIONS * HTTP/1.1\r\nHost: localhost\r\n", "404"},
			{"two hosts", "GET /v1/models HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n", "400"},
			{"no host", "GET /v1/models HTTP/1.1\r\n", "400"},
			{"no host, old", "GET /v1/models HTTP/1.0\r\n", "403"},
			{"two lengths", "POST /v1/models HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n", "400"},
			{"unknown transfer encoding", "POST /v1/models HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: xchunked\r\n", "400"},
			{"folded header", "GET /v1/models HTTP/1.1\r\nHost: localhost\r\nX-A: 1\r\n 2\r\n", "400"},
			{"space before the colon", "GET /v1/models HTTP/1.1\r\nHost: localhost\r\nX-A : 1\r\n", "400"},
		} {
			conn, err := f.net.dial(t.Context(), "warden")
			if err != nil {
				t.Fatal(err)
			}
			go func() { _, _ = fmt.Fprint(conn, c.head+"Connection: close\r\n\r\n") }()
			answer, _ := io.ReadAll(conn)
			conn.Close()
			if status, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(string(answer), "HTTP/1.1 "), "HTTP/1.0 "), " "); status != c.want {
				t.Errorf("%s: %.60q, want %s", c.name, answer, c.want)
			}
		}
	})
}
