package router

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// bench is an engine on a unix socket, reached directly and through a Router,
// both over TCP as a client would.
func bench(b *testing.B, handler http.HandlerFunc) (client *http.Client, direct, through string) {
	b.Helper()
	path := filepath.Join(b.TempDir(), "r0.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		b.Fatal(err)
	}
	engine := &http.Server{Handler: handler}
	go func() { _ = engine.Serve(l) }()
	plain := httptest.NewServer(handler)
	r := New(Options{})
	if err := r.SetModels([]Model{{Alias: testModel}}); err != nil {
		b.Fatal(err)
	}
	if err := r.SetReplicas(testModel, []Replica{{ID: "r0", Address: "unix:" + path, Accepting: true, MaxNumSeqs: 4096}}); err != nil {
		b.Fatal(err)
	}
	front := httptest.NewUnstartedServer(nil)
	front.Config = NewServer(r)
	front.Start()
	client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100, DisableCompression: true}}
	b.Cleanup(func() {
		client.CloseIdleConnections()
		front.Close()
		r.Close()
		plain.Close()
		_ = engine.Close()
	})
	return client, plain.URL, front.URL
}

func exchangeOnce(b *testing.B, client *http.Client, url, body string) int64 {
	resp, err := client.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	n, err := io.Copy(io.Discard, resp.Body)
	if err != nil || resp.StatusCode != 200 {
		b.Fatal(resp.Status, err)
	}
	return n
}

// BenchmarkStream: one stream of 200 events as fast as they go.
func BenchmarkStream(b *testing.B) {
	event := []byte(chunk("token"))
	client, direct, through := bench(b, func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		s := stream(w)
		for range 200 {
			_, _ = w.Write(event)
			w.(http.Flusher).Flush()
		}
		s.finish()
	})
	for name, url := range map[string]string{"direct": direct, "through": through} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				exchangeOnce(b, client, url, streamBody("x"))
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/203, "ns/event")
		})
	}
}

// BenchmarkBody: a request of that size and a short answer.
func BenchmarkBody(b *testing.B) {
	client, direct, through := bench(b, func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		sayHello(w, req)
	})
	for size, bytes := range map[string]int{"1kB": 1 << 10, "60kB": 60 << 10, "1MB": 1 << 20} {
		body := chatBody(strings.Repeat("word ", bytes/5))
		for name, url := range map[string]string{"direct": direct, "through": through} {
			b.Run(size+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for range b.N {
					exchangeOnce(b, client, url, body)
				}
			})
		}
	}
}

// BenchmarkQuietStreams reports what 500 streams cost that wait for their next
// event, the client's and the engine's side included.
func BenchmarkQuietStreams(b *testing.B) {
	const streams = 500
	for range b.N {
		release := make(chan struct{})
		client, direct, through := bench(b, func(w http.ResponseWriter, req *http.Request) {
			_, _ = io.Copy(io.Discard, req.Body)
			stream(w).send(chunk("a"))
			<-release
		})
		open := func(url string) (memory, goroutines float64, closeAll func()) {
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			routines := runtime.NumGoroutine()
			var bodies []io.Closer
			for range streams {
				resp, err := client.Post(url+"/v1/chat/completions", "application/json", bytes.NewReader([]byte(streamBody("x"))))
				if err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(resp.Body, make([]byte, len(chunk("a")))); err != nil {
					b.Fatal(err)
				}
				bodies = append(bodies, resp.Body)
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			used := float64(after.HeapInuse+after.StackInuse) - float64(before.HeapInuse+before.StackInuse)
			return used / streams, float64(runtime.NumGoroutine()-routines) / streams, func() {
				for _, c := range bodies {
					c.Close()
				}
			}
		}
		m1, g1, close1 := open(direct)
		m2, g2, close2 := open(through)
		b.ReportMetric((m2-m1)/1024, "KiB/stream")
		b.ReportMetric(g2-g1, "goroutines/stream")
		close(release)
		close1()
		close2()
	}
}
