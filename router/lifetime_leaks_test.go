package router

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// Many streams begin, end and are left in every way there is, on connections
// that are used again; in the end nothing is held, and no descriptor is lost.
func TestManyTakenStreams(t *testing.T) {
	path := engineOn(t, func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		s := stream(w)
		s.send(chunk("a"))
		switch {
		case bytes.Contains(body, []byte("cut")):
			s.send(chunk("b"))
			cut()
		case bytes.Contains(body, []byte("large")):
			for range 10 {
				s.send(chunk(strings.Repeat("l", 50<<10)))
			}
		case bytes.Contains(body, []byte("silent")):
			<-req.Context().Done()
			return
		}
		s.finish()
	})
	r, address := serve(t, Options{}, path)
	before := openFiles(t)
	kinds := []string{"plain", "cut", "large", "silent", "left"}
	streams := times(300, 20_000)
	var all sync.WaitGroup
	for w := range 8 {
		all.Go(func() {
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			for i := w; i < streams; i += 8 {
				kind := kinds[i%len(kinds)]
				ctx, leave := context.WithTimeout(t.Context(), 20*time.Second)
				req, err := http.NewRequestWithContext(ctx, "POST", "http://"+address+"/v1/chat/completions", strings.NewReader(streamBody(kind)))
				if err != nil {
					t.Error(err)
				}
				req.Header.Set("Content-Type", "application/json")
				resp, err := client.Do(req)
				if err != nil {
					t.Errorf("%s: %v", kind, err)
					leave()
					continue
				}
				if kind == "silent" || kind == "left" {
					_, _ = io.ReadFull(resp.Body, make([]byte, 10))
					leave()
				}
				got, err := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				leave()
				done := bytes.HasSuffix(got, []byte(doneEvent))
				if (kind == "plain" || kind == "large") && (err != nil || !done) || kind == "cut" && (err == nil || done) {
					t.Errorf("%s: %d bytes, %v", kind, len(got), err)
				}
			}
		})
	}
	all.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := r.Drain(ctx); err != nil {
		t.Error(err)
	}
	if held, _ := r.Work("r0"); held != 0 {
		t.Errorf("%d are held", held)
	}
	r.Close()
	deadline := time.Now().Add(20 * time.Second)
	for openFiles(t) > before+2 && time.Now().Before(deadline) { // engines and net/http close a moment later
		<-time.After(10 * time.Millisecond)
	}
	if now := openFiles(t); now > before+2 {
		t.Errorf("%d files became %d", before, now)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}
