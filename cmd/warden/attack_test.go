package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lm-warden/warden/supervisor/control"
)

// What the API is attacked with, and the test that proves each row; `make
// attack` runs them and the fuzz tests for long. Rows without a package are in
// this folder and attack the built program.
//
//	binding         beyond loopback only with keys       script config.txtar
//	                engines out of other users' reach    TestAttackAsAnotherUser
//	paths, methods  closed list, written one way         router: TestUnlistedPathsAre404, TestListedPathsAndMethods,
//	                                                     TestRequestLines; TestAttackPaths
//	browsers        Host, Origin, Sec-Fetch-Site, CORS   router: TestWhoMayComeIn, TestPreflightForListedOriginsOnly
//	                POST needs application/json          router: TestBodies
//	smuggling       framing beyond doubt                 router/framing: TestSamples, FuzzAgreesWithTheServer;
//	                                                     TestAttackSmuggling
//	                headers to the engine                router: TestHeadersToTheEngine
//	keys            hashes, scopes, limits, fair share   router/keys; router: TestKeys, TestScopesOfRoutes, TestKeyLimit,
//	                                                     TestKeysShareTheQueue; placement: TestGreedyUserGetsItsShareOnly
//	                time tells nothing                   router/keys: TestTimeTellsNothing
//	                read again when changed              cmd/internal/front; TestAttackKeysAreReadAgain
//	TLS             1.2 at least, HTTP/2, renewal        router/secure; TestTLS
//	limits          headers, bodies, queue               router: TestServerLimits, TestBodies; placement: TestWaitIsBounded
//	                slow clients                         router: bars_test.go; TestAttackSlowClients
//	                floods, idle connections             cmd/internal/conns; TestAttackFlood, TestAttackIdleConnections
//	                descriptors, disk                    TestFigureNoDescriptors, TestFigureFullDisk, TestFigureReadOnlyState
//	                leaks                                TestFigureNoLeaks (`make leaks`: 10^6 requests)
//	secrets         argv, logs, state, dumps, screens    TestAttackSecrets
//	admin           socket of its user only              supervisor/control: socket_test.go; TestAttackAsAnotherUser
//	advisories      engines with known holes             supervisor/vllm: TestAdvisories

// raw sends bytes as they are and returns all that comes back until warden
// closes the connection; closed says whether it did.
func (w *running) raw(text string) (answer string, closed bool) {
	w.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
	if err != nil {
		w.t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		w.t.Fatal(err)
	}
	_, _ = io.WriteString(conn, text) // warden may close before it has read all
	content, err := io.ReadAll(conn)
	return string(content), err == nil || strings.Contains(err.Error(), "reset")
}

// crlf writes requests readably.
func crlf(text string) string { return strings.ReplaceAll(text, "\n", "\r\n") }

// smuggled is a request that must never be served.
var smuggled = chatRequest("smuggled")

func chatRequest(text string) string {
	body := fmt.Sprintf(`{"model":"qwen3-4b","max_tokens":2,"messages":[{"role":"user","content":%q}]}`, text)
	return crlf(fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\nHost: localhost\nContent-Type: application/json\nContent-Length: %d\n\n", len(body))) + body
}

// Each sample could be read as one request by some and as two by others. warden
// refuses all of it, closes the connection and serves nothing of what follows.
func TestAttackSmuggling(t *testing.T) {
	w := start(t, "--dp", "1")
	const post = "POST /v1/chat/completions HTTP/1.1\nHost: localhost\nContent-Type: application/json\n"
	for name, text := range map[string]string{
		"length before chunks":     crlf(post+"Content-Length: 5\nTransfer-Encoding: chunked\n\n0\n\n") + smuggled,
		"chunks before length":     crlf(post+"Transfer-Encoding: chunked\nContent-Length: 300\n\n0\n\n") + smuggled,
		"two lengths":              crlf(post+"Content-Length: 0\nContent-Length: 300\n\n") + smuggled,
		"twice the same length":    crlf(post+"Content-Length: 0\nContent-Length: 0\n\n") + smuggled,
		"a list of lengths":        crlf(post+"Content-Length: 0, 300\n\n") + smuggled,
		"plus sign":                crlf(post+"Content-Length: +0\n\n") + smuggled,
		"unknown encoding":         crlf(post+"Transfer-Encoding: xchunked\n\n0\n\n") + smuggled,
		"list of encodings":        crlf(post+"Transfer-Encoding: chunked, identity\n\n0\n\n") + smuggled,
		"two encodings":            crlf(post+"Transfer-Encoding: chunked\nTransfer-Encoding: x\n\n0\n\n") + smuggled,
		"folded encoding":          crlf(post+"Transfer-Encoding:\n chunked\n\n0\n\n") + smuggled,
		"folded length":            crlf(post+"X-A: b\n Content-Length: 300\n\n") + smuggled,
		"space before the colon":   crlf(post+"Content-Length : 300\n\n") + smuggled,
		"bare line feeds":          post + "Content-Length: 0\n\n" + smuggled,
		"line feed inside a value": strings.Replace(crlf(post+"X-A: b~Content-Length: 300\n\n"), "~", "\n", 1) + smuggled,
		"carriage return in value": strings.Replace(crlf(post+"X-A: b~Content-Length: 300\n\n"), "~", "\r", 1) + smuggled,
		"zero byte":                strings.Replace(crlf(post+"X-A: ~\n\n"), "~", "\x00", 1) + smuggled,
		"chunk extension":          crlf(post+"Transfer-Encoding: chunked\n\n2;x=y\n{}\n0\n\n") + smuggled,
		"line feed behind a size":  crlf(post+"Transfer-Encoding: chunked\n\n") + "2\n{}\r\n0\r\n\r\n" + smuggled,
		"chunk longer than said":   crlf(post+"Transfer-Encoding: chunked\n\n2\n{}xx\n0\n\n") + smuggled,
		"size that overflows":      crlf(post+"Transfer-Encoding: chunked\n\n10000000000000002\n{}\n0\n\n") + smuggled,
		"trailer":                  crlf(post+"Transfer-Encoding: chunked\n\n2\n{}\n0\nContent-Length: 300\n\n") + smuggled,
		"chunks of HTTP/1.0":       crlf(strings.Replace(post, "1.1", "1.0", 1)+"Connection: keep-alive\nTransfer-Encoding: chunked\n\n0\n\n") + smuggled,
	} {
		answer, closed := w.raw(text)
		if n := strings.Count(answer, "HTTP/1."); n > 1 || n == 1 && !strings.HasPrefix(answer[9:], "400") || !closed {
			t.Errorf("%s: %d answers, closed %v: %.200q", name, n, closed, answer)
		}
	}
	if n := w.poll("nothing is held", idle).Totals.Requests; n != 0 {
		t.Errorf("%d requests reached an engine", n)
	}
	// What is beyond doubt passes, several on one connection too.
	answer, _ := w.raw(chatRequest("one") + chatRequest("two") + strings.Replace(chatRequest("three"), "Host", "Connection: close\r\nHost", 1))
	if n := strings.Count(answer, "HTTP/1.1 200 OK"); n != 3 {
		t.Errorf("%d of 3 requests in a row were answered: %.300q", n, answer)
	}
}

func idle(s control.Status) bool { return s.Totals.Held == 0 }

// No way to write a path leads to what an engine has beside the listed ones.
func TestAttackPaths(t *testing.T) {
	w := start(t, "--dp", "1")
	for line, want := range map[string]string{
		"GET /v1/models":                     "200",
		"GET /v1/models?x=/../../metrics":    "200",
		"POST /v1/load_lora_adapter":         "404",
		"POST /v1/../collective_rpc":         "404",
		"POST /v1/%2e%2e/collective_rpc":     "404",
		"POST /v1/%252e%252e/collective_rpc": "404",
		"POST /v1%2fchat%2fcompletions":      "404",
		"POST /v1/chat%2Fcompletions":        "404",
		"POST //v1/chat/completions":         "404",
		"POST /v1/chat/completions/":         "404",
		"POST /v1/chat/completions%00":       "404",
		"POST /v1\\chat\\completions":        "404",
		"POST /V1/chat/completions":          "404",
		"POST http://localhost/v1/messages":  "404",
		"POST http://evil.example/v1/models": "403",
		"CONNECT localhost:1":                "404",
		"OPTIONS *":                          "404",
		"DELETE /v1/models":                  "405",
		"TRACE /v1/models":                   "405",
		"PRI *":                              "404",
	} {
		answer, closed := w.raw(crlf(line + " HTTP/1.1\nHost: localhost\nContent-Type: application/json\nContent-Length: 2\nConnection: close\n\n{}"))
		if status := strings.TrimPrefix(answer, "HTTP/1.1 "); !strings.HasPrefix(status, want) || !closed {
			t.Errorf("%s: %.60q, want %s", line, answer, want)
		}
	}
	if n := w.poll("nothing is held", idle).Totals.Requests; n != 0 {
		t.Errorf("%d of them reached an engine", n)
	}
}

// Headers without end, a giant line and a giant head are cut off at 64 KiB.
func TestAttackHeaders(t *testing.T) {
	w := start(t, "--dp", "1")
	many := strings.Repeat("X-A: 1\n", 101)
	for name, c := range map[string]struct{ text, want string }{
		"a giant header": {"GET /healthz HTTP/1.1\nHost: localhost\nX-A: " + strings.Repeat("a", 80<<10) + "\n\n", "431"},
		"a giant path":   {"GET /" + strings.Repeat("a", 80<<10) + " HTTP/1.1\nHost: localhost\n\n", "431"},
		"many headers":   {"GET /healthz HTTP/1.1\nHost: localhost\nConnection: close\n" + many + "\n", "431"},
		"a giant body":   {"POST /v1/messages HTTP/1.1\nHost: localhost\nContent-Type: application/json\nContent-Length: 99999999\n\n{", "413"},
	} {
		if answer, _ := w.raw(crlf(c.text)); !strings.HasPrefix(strings.TrimPrefix(answer, "HTTP/1.1 "), c.want) {
			t.Errorf("%s: %.80q, want %s", name, answer, c.want)
		}
	}
	resp, err := http.Get(w.url + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := bufio.NewReader(resp.Body).ReadString('}'); err != nil || resp.StatusCode != 200 {
		t.Errorf("afterwards: %d %v", resp.StatusCode, err)
	}
}
