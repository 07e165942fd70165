package router

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// times is how often a figure is tried: often, or as often as it is stated for.
func times(short, full int) int {
	if os.Getenv("WARDEN_BARS") == "full" {
		return full
	}
	return short
}

// parallel runs n numbered tasks, width at a time, each with its own random
// numbers, and returns when all are done.
func parallel(n, width int, task func(i int, rng *rand.Rand)) {
	var wait sync.WaitGroup
	next := make(chan int)
	for range width {
		wait.Go(func() {
			for i := range next {
				task(i, rand.New(rand.NewPCG(uint64(i), 1)))
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wait.Wait()
}

// Figure 9: wherever a request is when its client leaves, the engine learns it
// within 100 ms, and nothing stays counted (fixture.stop checks the counters).
func TestBarDisconnects(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, setup{engines: 4, maxNumSeqs: 256})
		// A second model without replicas: its requests are held.
		if err := f.router.SetModels([]Model{{Alias: testModel}, {Alias: "held"}}); err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		began, ended := map[string]bool{}, map[string]time.Time{}
		f.every(func(*engine) http.HandlerFunc {
			return func(w http.ResponseWriter, req *http.Request) {
				n := req.Header.Get("X-N")
				mu.Lock()
				began[n] = true
				mu.Unlock()
				defer func() {
					mu.Lock()
					defer mu.Unlock()
					ended[n] = time.Now()
				}()
				if req.Header.Get("X-Kind") != "stream" {
					<-req.Context().Done()
					return
				}
				s := stream(w)
				for req.Context().Err() == nil {
					select {
					case <-req.Context().Done():
					case <-time.After(250 * time.Millisecond):
						s.send(chunk("x"))
					}
				}
			}
		})
		n := times(400, 10_000)
		left := make([]time.Time, n)
		kinds := []string{"stream", "whole", "held"}
		parallel(n, 32, func(i int, rng *rand.Rand) {
			kind, body := kinds[i%len(kinds)], chatBody("x")
			switch kind {
			case "stream":
				body = streamBody("x")
			case "held":
				body = strings.Replace(body, testModel, "held", 1)
			}
			session := fmt.Sprint("s", rng.IntN(200))
			ctx, leave := context.WithCancel(t.Context())
			gone := make(chan struct{})
			go func() {
				defer close(gone)
				f.do(f.request(ctx, "POST", "/v1/chat/completions", body,
					"X-N", strconv.Itoa(i), "X-Kind", kind, "X-Session-Id", session))
			}()
			if wait := time.Duration(rng.Int64N(int64(2 * time.Second))); rng.IntN(20) > 0 {
				elapse(wait)
			}
			left[i] = time.Now()
			leave()
			<-gone
		})
		elapse(100 * time.Millisecond)
		soon()
		mu.Lock()
		defer mu.Unlock()
		late := 0
		for i, at := range left {
			end, ok := ended[strconv.Itoa(i)]
			if began[strconv.Itoa(i)] && (!ok || end.Sub(at) > 100*time.Millisecond) {
				late++
			}
		}
		if late > 0 {
			t.Errorf("%d of %d engines' requests ran on for more than 100 ms", late, len(began))
		}
		if len(began) < n/2 {
			t.Errorf("only %d of %d requests reached an engine", len(began), n)
		}
		if q := f.router.Snapshot(0).Models[1].Queue; len(q) != 0 {
			t.Errorf("%d requests are still held", len(q))
		}
		if got := f.noted(&f.failures); len(got) != 0 {
			t.Errorf("%d clients that left were taken for failures", len(got))
		}
	})
}

// wholeStreams are complete answers of each API; the last event is its end.
var wholeStreams = map[string][]string{
	"/v1/chat/completions": append(slices.Repeat([]string{chunk("hello")}, 9), finishChunk, usageChunk, doneEvent),
	"/v1/completions": append(slices.Repeat([]string{`data: {"choices":[{"text":"hello"}]}` + "\n\n"}, 9),
		`data: {"choices":[{"text":"","finish_reason":"stop"}]}`+"\n\n", doneEvent),
	"/v1/messages": append(slices.Repeat([]string{
		"event: content_block_delta\n" + `data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hello"}}` + "\n\n"}, 9),
		"event: message_delta\n"+`data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":9,"output_tokens":2}}`+"\n\n",
		"event: message_stop\n"+`data: {"type":"message_stop"}`+"\n\n"),
	"/v1/responses": append(slices.Repeat([]string{
		"event: response.output_text.delta\n" + `data: {"type":"response.output_text.delta","delta":"hello"}` + "\n\n"}, 9),
		"event: response.completed\n"+`data: {"type":"response.completed","response":{"id":"resp_1","status":"completed","output":[]}}`+"\n\n"),
}

// looksComplete is how the clients of an API tell a whole answer: a clean end
// of the connection, or the end marker.
func looksComplete(r reply) bool {
	if r.status >= 400 {
		return false
	}
	for _, end := range []string{"[DONE]", `"message_stop"}`, `"response.completed"`} {
		if strings.Contains(r.body, end) {
			return true
		}
	}
	return r.err == nil
}

// Figure 11: no answer that its engine cut looks complete, wherever the cut is
// and however the engine's connection ended.
func TestBarCutStreams(t *testing.T) {
	paths := []string{"/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/responses"}
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, setup{engines: 2, maxNumSeqs: 256})
		f.every(func(*engine) http.HandlerFunc {
			return func(w http.ResponseWriter, req *http.Request) {
				at, _ := strconv.Atoi(req.Header.Get("X-Cut"))
				if req.Header.Get("X-Kind") == "whole" {
					w.Header().Set("Content-Type", "application/json")
					_, _ = io.WriteString(w, largeAnswer[:at])
					w.(http.Flusher).Flush()
					cut()
				}
				text := strings.Join(wholeStreams[req.URL.Path], "")
				stream(w).send(text[:at])
				if req.Header.Get("X-Kind") == "abrupt" {
					cut()
				}
			}
		})
		n := times(400, 5_000)
		results := make([]reply, n)
		parallel(n, 16, func(i int, rng *rand.Rand) {
			path, kind := paths[i%len(paths)], []string{"abrupt", "clean", "whole"}[i/len(paths)%3]
			// plain asks for no usage, so that warden takes the usage chunk out.
			body := []string{streamBody("x"), strings.Replace(chatBody("x"), "{", `{"stream":true,`, 1)}[rng.IntN(2)]
			events := wholeStreams[path]
			size := len(strings.Join(events[:len(events)-1], "")) + len("event: ") // not the marker itself
			at := rng.IntN(size)
			if kind == "whole" {
				// Half of them are so large that a part has been passed on.
				at = []int{rng.IntN(len(helloBody)), maxWhole + 1 + rng.IntN(len(largeAnswer)-maxWhole-1)}[rng.IntN(2)]
			}
			results[i] = f.do(f.request(t.Context(), "POST", path, body, "X-Kind", kind, "X-Cut", strconv.Itoa(at),
				"X-Session-Id", fmt.Sprint("s", i)))
		})
		refused := 0
		for i, r := range results {
			if looksComplete(r) {
				t.Fatalf("%s number %d looks complete: %d %q %v", paths[i%len(paths)], i, r.status, r.body, r.err)
			}
			if r.status >= 400 {
				refused++
			}
		}
		if refused > n/4 {
			t.Errorf("%d of %d were refused before they could be cut", refused, n)
		}
		for _, path := range paths { // the measure itself: an uncut one does look complete
			size := len(strings.Join(wholeStreams[path], ""))
			if r := f.post(path, streamBody("x"), "X-Kind", "clean", "X-Cut", strconv.Itoa(size)); !looksComplete(r) || r.err != nil {
				t.Errorf("%s: an uncut stream does not look complete: %d %q %v", path, r.status, r.body, r.err)
			}
		}
	})
}

// Figure 12: a request of which a byte has reached the client is given to no
// other engine, and one of which none has is tried once more after one fault.
func TestBarDuplicates(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, setup{engines: 4, maxNumSeqs: 256})
		type delivery struct{ data bool }
		var mu sync.Mutex
		got := map[string][]*delivery{}
		f.every(func(*engine) http.HandlerFunc {
			return func(w http.ResponseWriter, req *http.Request) {
				n, fault := req.Header.Get("X-N"), req.Header.Get("X-Fault")
				mu.Lock()
				d := &delivery{}
				got[n] = append(got[n], d)
				first := len(got[n]) == 1
				mu.Unlock()
				if !first {
					fault = "none"
				}
				if fault == "before headers" {
					cut()
				}
				s := stream(w)
				if fault == "after headers" {
					cut()
				}
				d.data = true
				s.send(chunk("once "))
				if fault == "after data" {
					cut()
				}
				s.finish()
			}
		})
		n := times(400, 5_000)
		faults := []string{"none", "before headers", "after headers", "after data", "none"}
		results := make([]reply, n)
		parallel(n, 32, func(i int, rng *rand.Rand) {
			results[i] = f.do(f.request(t.Context(), "POST", "/v1/chat/completions", streamBody("x"), "X-N", strconv.Itoa(i),
				"X-Fault", faults[i%len(faults)], "X-Session-Id", fmt.Sprint("s", rng.IntN(100))))
		})
		for i, r := range results {
			tries, fault := got[strconv.Itoa(i)], faults[i%len(faults)]
			want := map[string]int{"none": 1, "before headers": 2, "after headers": 2, "after data": 1}[fault]
			if len(tries) != want {
				t.Errorf("fault %s: %d engines got the request, want %d", fault, len(tries), want)
			}
			for _, d := range tries[:len(tries)-1] {
				if d.data {
					t.Errorf("fault %s: tried again after data had been sent", fault)
				}
			}
			if strings.Count(r.body, "once ") != 1 || (fault == "after data") != errors.Is(r.err, io.ErrUnexpectedEOF) {
				t.Errorf("fault %s: the client got %q %v", fault, r.body, r.err)
			}
		}
	})
}

// Figure 15: pieces sent 5 ms apart or more arrive one by one, as they were
// sent and when, however many streams there are.
func TestBarPiecesAreNotJoined(t *testing.T) {
	const pieces, apart = 100, 5 * time.Millisecond
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, setup{engines: 2, maxNumSeqs: 256})
		f.every(func(*engine) http.HandlerFunc {
			return func(w http.ResponseWriter, req *http.Request) {
				s := stream(w)
				for i := range pieces {
					elapse(apart + time.Duration(i%7)*time.Millisecond)
					s.send(chunk(fmt.Sprintf("%d %d", i, time.Now().UnixNano())))
				}
				s.finish()
			}
		})
		var mu sync.Mutex
		joined, delays := 0, []time.Duration{}
		streams := times(16, 128)
		parallel(streams, 16, func(i int, _ *rand.Rand) {
			// Every other one without usage, so that warden takes that chunk out.
			body := []string{streamBody("x"), strings.Replace(chatBody("x"), "{", `{"stream":true,`, 1)}[i%2]
			resp, err := f.client.Do(f.request(t.Context(), "POST", "/v1/chat/completions", body))
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			buffer := make([]byte, 64<<10)
			for p := range pieces {
				n, err := resp.Body.Read(buffer)
				now := time.Now()
				if err != nil {
					t.Errorf("piece %d: %v", p, err)
					return
				}
				var number int
				var sent int64
				text := string(buffer[:n])
				_, content, _ := strings.Cut(text, `"content":"`)
				_, err = fmt.Sscanf(content, "%d %d", &number, &sent)
				mu.Lock()
				if err != nil || number != p || strings.Count(text, "data: ") != 1 || !strings.HasSuffix(text, "\n\n") {
					joined++
				}
				delays = append(delays, now.Sub(time.Unix(0, sent)))
				mu.Unlock()
			}
		})
		if share := float64(joined) / float64(streams*pieces); share > 0.01 {
			t.Errorf("%d of %d pieces did not arrive as sent", joined, streams*pieces)
		}
		slices.Sort(delays)
		if p99 := delays[len(delays)*99/100]; p99 > time.Millisecond {
			t.Errorf("p99 of the delay: %v", p99)
		}
	})
}
