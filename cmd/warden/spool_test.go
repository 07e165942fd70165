package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A body above the size that is set lies in a file in the directory that is set,
// which has no name, and goes with its request.
func TestLargeBodiesLieWhereTheyShall(t *testing.T) {
	home := newHome(t)
	dir := filepath.Join(home, "bodies")
	writeFile(t, filepath.Join(dir, "other"), "")
	w := launchWith(t, home, []string{"WARDEN_SPOOL_DIR=" + dir, "WARDEN_SPOOL_ABOVE_MIB=3"}, "--demo", "--demo-sessions", "0", "--dp", "1", "--listen", "127.0.0.1:0")
	w.waitFor(allReady)
	mapped := func() bool {
		maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", w.cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(maps), dir+"/warden-body-")
	}
	for size, want := range map[int]bool{2 << 20: false, 4 << 20: true} {
		body := `{"model":"qwen3-4b","max_tokens":1,"messages":[{"role":"user","content":"` + strings.Repeat("x", size) + `"}]}`
		in, out := io.Pipe()
		req, err := http.NewRequest(http.MethodPost, w.url+"/v1/chat/completions", in)
		if err != nil {
			t.Fatal(err)
		}
		req.ContentLength = int64(len(body))
		req.Header.Set("Content-Type", "application/json")
		answered := make(chan error, 1)
		go func() {
			resp, err := http.DefaultClient.Do(req)
			if err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				err = resp.Body.Close()
			}
			answered <- err
		}()
		half := len(body) - 100
		if _, err := io.WriteString(out, body[:half]); err != nil {
			t.Fatal(err)
		}
		if want {
			await(t, 10*time.Second, "the body lies in a file", mapped)
		} else if mapped() {
			t.Errorf("a body of %d bytes lies in a file", size)
		}
		if _, err := io.WriteString(out, body[half:]); err != nil {
			t.Fatal(err)
		}
		out.Close()
		if err := <-answered; err != nil {
			t.Error(err)
		}
		await(t, 10*time.Second, "the file has gone", func() bool { return !mapped() })
	}
	if left, err := os.ReadDir(dir); len(left) != 1 || err != nil {
		t.Errorf("files in the directory: %v, %v", left, err)
	}
}
