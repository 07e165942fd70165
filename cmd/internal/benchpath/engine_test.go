package benchpath

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/lm-warden/warden/supervisor/vllm"
)

// startEngine runs an engine on a port and a socket in this process.
func startEngine(t *testing.T) (url, socket string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "bp") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	socket = filepath.Join(dir, "e.sock")
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	unix, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	e, err := newEngine(modelName)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- e.serve(time.Minute, tcp, unix) }()
	t.Cleanup(func() {
		tcp.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		os.RemoveAll(dir)
	})
	return "http://" + tcp.Addr().String(), socket
}

func ask(t *testing.T, client *http.Client, method, url, body string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(answer)
}

func TestEngineAnswersAsVLLM(t *testing.T) {
	url, socket := startEngine(t)
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}
	defer client.CloseIdleConnections()
	if resp, _ := ask(t, client, "GET", url+"/health", ""); resp.StatusCode != http.StatusOK {
		t.Errorf("/health: %s", resp.Status)
	}
	if _, models := ask(t, client, "GET", url+"/v1/models", ""); gjson.Get(models, "data.0.id").String() != modelName {
		t.Errorf("models %s", models)
	}
	_, one := ask(t, client, "POST", url+"/v1/chat/completions", `{"messages":[{"role":"user","content":"ping"}]}`)
	if gjson.Get(one, "choices.0.message.content").String() == "" || gjson.Get(one, "usage.completion_tokens").Int() != 1 {
		t.Errorf("answer %s", one)
	}
	resp, stream := ask(t, client, "POST", url+"/v1/chat/completions",
		`{"stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"`+script{Events: 3}.words()+`"}]}`)
	messages := strings.Split(strings.TrimSuffix(stream, "\n\n"), "\n\n")
	if len(messages) != 7 || messages[6] != "data: [DONE]" || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		t.Fatalf("%s: %q", resp.Header.Get("Content-Type"), messages)
	}
	for i, m := range messages[:6] {
		if !gjson.Valid(strings.TrimPrefix(m, "data: ")) {
			t.Errorf("message %d is no JSON: %s", i, m)
		}
	}
	if n := gjson.Get(strings.TrimPrefix(messages[5], "data: "), "usage.completion_tokens").Int(); n != 3 {
		t.Errorf("usage %d in %s", n, messages[5])
	}
	// The supervisor's own reader must find what it places by.
	_, metrics := ask(t, client, "GET", url+"/metrics", "")
	stats, err := vllm.New(vllm.Install{}, vllm.Options{}).ParseStats(strings.NewReader(metrics), time.Now())
	if err != nil || stats.KVCapacityTokens != blocks*blockTokens || stats.GenerationTokens != 4 || stats.Running != 0 {
		t.Errorf("%+v, %v from\n%s", stats, err, metrics)
	}
}

func TestParseEngine(t *testing.T) {
	for line, want := range map[string]string{
		"m --uds /a/b --max-num-seqs 5":                           "m unix:/a/b",
		"m --served-model-name x --host 127.0.0.1 --port 8 -tp 1": "x tcp:127.0.0.1:8",
		"m --port 8 --uds /s":                                     "m unix:/s tcp:127.0.0.1:8",
	} {
		e, err := ParseEngine(strings.Fields(line))
		if got := e.Model + " " + strings.Join(e.Listeners, " "); err != nil || got != want {
			t.Errorf("%q: %q, %v, want %q", line, got, err, want)
		}
	}
	for _, line := range []string{"", "--uds /a", "m", "m --host h"} {
		if e, err := ParseEngine(strings.Fields(line)); err == nil {
			t.Errorf("%q: %+v", line, e)
		}
	}
}

func TestCallerReadsWhatTheEngineSends(t *testing.T) {
	url, _ := startEngine(t)
	c, err := newClock()
	if err != nil {
		t.Fatal(err)
	}
	caller, err := newCaller(url, "s", c)
	if err != nil {
		t.Fatal(err)
	}
	defer caller.close()
	s := script{Events: 20, Interval: time.Millisecond}
	tm, err := newTemplate(modelName, agentBody, s, true)
	if err != nil {
		t.Fatal(err)
	}
	arrived := 0
	for range 2 { // on one connection
		began := time.Now()
		took := caller.call(tm.of(1), s, true, func(n int) { arrived += n })
		if took.err != nil || len(took.delays) != s.Events || took.firstByte <= 0 || took.firstByte > time.Since(began) {
			t.Errorf("%+v", took)
		}
		if paced := time.Since(began); paced < s.Interval*time.Duration(s.Events-1) {
			t.Errorf("20 events at 1 ms took %v", paced)
		}
		for _, d := range took.delays {
			if d < 0 || d > int64(time.Since(began)) {
				t.Errorf("an event arrived %v after it was sent", time.Duration(d))
			}
		}
	}
	if want := 2 * (s.Events + 4); arrived != want { // role, finish, usage, [DONE]
		t.Errorf("%d messages, want %d", arrived, want)
	}
	if took := caller.call([]byte("{}"), script{Events: 1}, false, nil); took.err != nil {
		t.Error(took.err)
	}
	caller.close()
	caller.host = "127.0.0.1:1"
	if took := caller.call([]byte("{}"), s, true, nil); took.err == nil {
		t.Error("nobody listens, and no error")
	}
}
