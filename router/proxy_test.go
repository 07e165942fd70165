package router

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A failure that the client has not seen costs it nothing: the request is
// served by the other replica.
func TestFailoverBeforeTheFirstByte(t *testing.T) {
	dead := `{"error":{"message":"EngineCore encountered an issue. See stack trace (above) for the root cause.","type":"InternalServerError","param":null,"code":500}}`
	for _, c := range []struct {
		name   string
		fail   func(*engine) http.HandlerFunc
		stream bool
		blamed bool // the supervisor is told
	}{
		{"connection refused", nil, false, true},
		{"reset before the headers", func(*engine) http.HandlerFunc {
			return func(http.ResponseWriter, *http.Request) { cut() }
		}, false, true},
		{"headers, then death before the first event", func(*engine) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) { stream(w); cut() }
		}, true, true},
		{"a stream without an event", func(*engine) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) { stream(w) }
		}, true, true},
		{"headers, then death before the body", func(*engine) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "100")
				w.WriteHeader(http.StatusOK)
				w.(http.Flusher).Flush()
				cut()
			}
		}, false, true},
		{"dead engine", func(*engine) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, dead, http.StatusInternalServerError) }
		}, false, true},
		{"dead engine, told in a stream", func(*engine) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) { stream(w).send("data: "+dead+"\n\n", doneEvent) }
		}, true, true},
		{"engine is full", func(*engine) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				http.Error(w, `{"error":{"message":"queue is full"}}`, http.StatusServiceUnavailable)
			}
		}, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				f := newFixture(t, setup{engines: 2})
				f.every(func(*engine) http.HandlerFunc {
					if c.stream {
						return func(w http.ResponseWriter, _ *http.Request) {
							s := stream(w)
							s.send(chunk("hello"))
							s.finish()
						}
					}
					return sayHello
				})
				first := f.engine("r0")
				if c.fail == nil {
					first.kill()
				} else {
					first.set(c.fail(first))
				}
				body, want := chatBody("x"), helloBody
				if c.stream {
					body, want = streamBody("x"), chunk("hello")+finishChunk+usageChunk+doneEvent
				}
				// Two turns: the first of them is placed on r0 or r1, the ties rotate.
				for range 2 {
					r := f.post("/v1/chat/completions", body)
					if r.status != http.StatusOK || r.err != nil || r.body != want {
						t.Fatalf("got %d %q %v", r.status, r.body, r.err)
					}
					if got := r.header.Get("X-Warden-Replica"); got != "r1" {
						t.Fatalf("served by %q, want r1", got)
					}
				}
				if failures := f.noted(&f.failures); (len(failures) > 0) != c.blamed || len(failures) > 0 && failures[0] != "r0/1" {
					t.Errorf("failures reported: %v", failures)
				}
				if m := f.router.Snapshot(0).Models[0]; m.Retried == 0 || m.Replicas[1].Requests != 2 || m.Errors != 0 {
					t.Errorf("retried %d, requests on r1 %d, errors %d", m.Retried, m.Replicas[1].Requests, m.Errors)
				}
			})
		})
	}
}

// After the first byte the client sees the truth: what came, an error event
// where it can be read, a broken connection, and no end marker.
func TestTruthAfterTheFirstByte(t *testing.T) {
	messages := "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"hi\"}}\n\n"
	for _, c := range []struct {
		name, path string
		sent       string
		clean      bool // the engine closes the stream properly
		event      string
	}{
		{"chat", "/v1/chat/completions", chunk("hi") + chunk("there"), false, `data: {"error":{"message":"replica r0 broke off`},
		{"chat, closed properly", "/v1/chat/completions", chunk("hi"), true, `data: {"error":{"message":"replica r0 broke off`},
		{"chat, after the finishing chunk", "/v1/chat/completions", chunk("hi") + finishChunk, true, `data: {"error":`},
		{"chat, in the middle of an event", "/v1/chat/completions", chunk("hi") + `data: {"id":"c1","cho`, false, ""},
		{"completions", "/v1/completions", `data: {"choices":[{"text":"y"}]}` + "\n\n", false, `data: {"error":`},
		{"messages", "/v1/messages", messages, false, "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\""},
		{"responses", "/v1/responses", "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"hi\"}\n\n", false,
			"event: error\ndata: {\"type\":\"error\","},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				f := newFixture(t, setup{engines: 1})
				f.engine("r0").set(func(w http.ResponseWriter, _ *http.Request) {
					stream(w).send(c.sent)
					if !c.clean {
						cut()
					}
				})
				r := f.post(c.path, streamBody("x"))
				rest, ok := strings.CutPrefix(r.body, c.sent)
				if !ok {
					t.Fatalf("the client got %q, want it to begin with what the engine sent", r.body)
				}
				if c.event == "" && rest != "" || !strings.HasPrefix(rest, c.event) {
					t.Errorf("after it came %q, want an event like %q", rest, c.event)
				}
				if !errors.Is(r.err, io.ErrUnexpectedEOF) {
					t.Errorf("reading ended with %v, want an unexpected end", r.err)
				}
				for _, end := range []string{"[DONE]", "message_stop", "response.completed"} {
					if strings.Contains(r.body, end) {
						t.Errorf("a cut stream contains %q", end)
					}
				}
				soon()
				if rec := f.finished(); len(rec) != 1 || !rec[0].Failed {
					t.Errorf("records: %+v", rec)
				}
				if got := f.noted(&f.failures); len(got) != 1 {
					t.Errorf("failures reported: %v", got)
				}
			})
		})
	}
}

// An unstreamed answer that breaks off in its middle is no answer: the request
// is asked once more, elsewhere, and nobody sees the piece that came.
func TestCutUnstreamedAnswerComesFromElsewhere(t *testing.T) {
	for name, length := range map[string]string{"with length": strconv.Itoa(len(helloBody)), "chunked": ""} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				f := newFixture(t, setup{engines: 3})
				var broken atomic.Pointer[engine] // the first that is asked breaks off
				began := time.Now()
				f.every(func(e *engine) http.HandlerFunc {
					return func(w http.ResponseWriter, _ *http.Request) {
						w.Header().Set("Content-Type", "application/json")
						if length != "" {
							w.Header().Set("Content-Length", length)
						}
						elapse(time.Second)
						if broken.CompareAndSwap(nil, e) {
							_, _ = io.WriteString(w, helloBody[:50])
							w.(http.Flusher).Flush()
							elapse(time.Second)
							cut()
						}
						_, _ = io.WriteString(w, helloBody)
					}
				})
				r := f.post("/v1/chat/completions", chatBody("x"), "X-Session-Id", "s")
				if r.status != 200 || r.body != helloBody || r.err != nil {
					t.Fatalf("got %d %q %v", r.status, r.body, r.err)
				}
				asked := 0
				for _, e := range f.engines {
					asked += len(e.requests())
				}
				if asked != 2 || r.header.Get("X-Warden-Replica") == string(broken.Load().id) {
					t.Errorf("asked %d times, served by %q, broken is %q", asked, r.header.Get("X-Warden-Replica"), broken.Load().id)
				}
				if got, want := f.noted(&f.failures), fmt.Sprintf("[%s/1]", broken.Load().id); fmt.Sprint(got) != want {
					t.Errorf("failures reported: %v, want %s", got, want)
				}
				soon()
				rec := f.finished()
				if len(rec) != 1 || rec[0].Attempts != 2 || rec[0].Failed || rec[0].Usage.CachedTokens != 80 || rec[0].FirstToken.Sub(began) != 3*time.Second {
					t.Errorf("records: %+v", rec)
				}
				if m := f.router.Snapshot(0).Models[0]; m.Retried != 1 || m.Errors != 0 {
					t.Errorf("retried %d, errors %d", m.Retried, m.Errors)
				}
			})
		})
	}
}

// largeAnswer is too large to be held until it is complete.
var largeAnswer = strings.TrimSuffix(helloBody, "}") + `,"pad":"` + strings.Repeat("x", maxWhole+64<<10) + `"}`

// What is too large to hold is passed on as it comes, and once something has
// been, a cut answer does not look complete, nor is it asked for again.
func TestLargeUnstreamedAnswer(t *testing.T) {
	for name, breaks := range map[string]bool{"complete": false, "cut": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				f := newFixture(t, setup{engines: 2})
				const late = 10
				read := make(chan struct{})
				f.every(func(*engine) http.HandlerFunc {
					return func(w http.ResponseWriter, _ *http.Request) {
						w.Header().Set("Content-Type", "application/json")
						w.Header().Set("Content-Length", strconv.Itoa(len(largeAnswer)))
						_, _ = io.WriteString(w, largeAnswer[:len(largeAnswer)-late])
						w.(http.Flusher).Flush()
						<-read // the client has most of it before the engine is done
						if breaks {
							cut()
						}
						_, _ = io.WriteString(w, largeAnswer[len(largeAnswer)-late:])
					}
				})
				resp, err := f.client.Do(f.request(t.Context(), "POST", "/v1/embeddings", chatBody("x")))
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				begin := make([]byte, maxWhole)
				if _, err := io.ReadFull(resp.Body, begin); err != nil {
					t.Fatal(err)
				}
				close(read)
				rest, err := io.ReadAll(resp.Body)
				if got := string(begin) + string(rest); breaks != (err != nil) || !strings.HasPrefix(largeAnswer, got) || !breaks && got != largeAnswer {
					t.Errorf("%d bytes of %d, then %v", len(got), len(largeAnswer), err)
				}
				if n := len(f.engines[0].requests()) + len(f.engines[1].requests()); n != 1 {
					t.Errorf("%d engines were asked", n)
				}
				soon()
				if rec := f.finished(); len(rec) != 1 || rec[0].Failed != breaks {
					t.Errorf("records: %+v", rec)
				}
			})
		})
	}
}

// What an engine sends is what the client gets, byte by byte, and piece by
// piece at the time it was sent.
func TestAnswersPassUnchangedAndAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, setup{engines: 1})
		odd := "{\"a\":1.50,\r\n \"b\":\"\\u00e9\xff\x00\"}" + strings.Repeat("x", 100_000)
		f.engine("r0").set(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("X-Engine", "a")
			w.Header().Add("X-Engine", "b")
			_, _ = io.WriteString(w, odd)
		})
		r := f.post("/v1/embeddings", chatBody("x"))
		if r.body != odd || r.err != nil || strings.Join(r.header["X-Engine"], ",") != "a,b" {
			t.Errorf("%d bytes (want %d), header %v, err %v", len(r.body), len(odd), r.header["X-Engine"], r.err)
		}

		f.engine("r0").set(func(w http.ResponseWriter, _ *http.Request) {
			s := stream(w)
			for i := range 5 {
				elapse(time.Second)
				s.send(chunk(fmt.Sprint(i)))
			}
			s.finish()
		})
		began := time.Now()
		resp, err := f.client.Do(f.request(t.Context(), "POST", "/v1/chat/completions", streamBody("x")))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.Header.Get("X-Accel-Buffering") != "no" || resp.Header.Get("Content-Length") != "" {
			t.Errorf("headers of a stream: %v", resp.Header)
		}
		lines := bufio.NewReader(resp.Body)
		for i := range 5 {
			line, err := lines.ReadString('\n')
			if err != nil || line+"\n" != chunk(fmt.Sprint(i)) {
				t.Fatalf("piece %d: %q %v", i, line, err)
			}
			if at := time.Since(began); at != time.Duration(i+1)*time.Second {
				t.Errorf("piece %d came after %v", i, at)
			}
			if _, err := lines.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
		if rest, err := io.ReadAll(lines); err != nil || string(rest) != finishChunk+usageChunk+doneEvent {
			t.Errorf("rest: %q %v", rest, err)
		}
	})
}

// A client that leaves ends the engine's work at once, whatever it waits for.
func TestDisconnectCancelsTheEngine(t *testing.T) {
	for _, c := range []struct {
		name   string
		body   string
		answer func(w http.ResponseWriter)
		header []string
	}{
		{"stream", streamBody("x"), func(w http.ResponseWriter) { stream(w).send(chunk("hi")) }, nil},
		{"stream before the first token", streamBody("x"), func(w http.ResponseWriter) { stream(w) }, nil},
		{"unstreamed", chatBody("x"), func(http.ResponseWriter) {}, nil},
		{"unstreamed, half of it", chatBody("x"), func(w http.ResponseWriter) {
			_, _ = io.WriteString(w, helloBody[:50])
			w.(http.Flusher).Flush()
		}, nil},
		{"packed", zipped(t, chatBody("x")), func(http.ResponseWriter) {}, []string{"Content-Encoding", "gzip"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				f := newFixture(t, setup{engines: 1})
				cancelled := make(chan time.Time, 1)
				f.engine("r0").set(func(w http.ResponseWriter, req *http.Request) {
					c.answer(w)
					<-req.Context().Done()
					cancelled <- time.Now()
				})
				ctx, leave := context.WithCancel(t.Context())
				go f.do(f.request(ctx, "POST", "/v1/chat/completions", c.body, c.header...))
				soon()
				if held, _ := f.router.Work("r0"); held != 1 {
					t.Fatalf("%d held before the client leaves", held)
				}
				elapse(time.Minute)
				left := time.Now()
				leave()
				if at := <-cancelled; at.Sub(left) > 100*time.Millisecond {
					t.Errorf("the engine learned it after %v", at.Sub(left))
				}
				soon()
				if held, _ := f.router.Work("r0"); held != 0 {
					t.Errorf("%d held after the client left", held)
				}
				if got := f.noted(&f.failures); len(got) != 0 {
					t.Errorf("a client that leaves was taken for a failure: %v", got)
				}
				if rec := f.finished(); len(rec) != 1 || !rec[0].Aborted || rec[0].Failed {
					t.Errorf("records: %+v", rec)
				}
			})
		})
	}
}

func TestDisconnectWhileWaitingForAPlace(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, setup{engines: 0})
		ctx, leave := context.WithCancel(t.Context())
		go f.do(f.request(ctx, "POST", "/v1/chat/completions", chatBody("x")))
		soon()
		if n := len(f.router.Snapshot(0).Models[0].Queue); n != 1 {
			t.Fatalf("%d turns wait, want 1", n)
		}
		leave()
		soon()
		if n := len(f.router.Snapshot(0).Models[0].Queue); n != 0 {
			t.Errorf("%d turns wait after the client left", n)
		}
	})
}

// A client that stops reading is let go after the idle time, and the engine
// with it.
func TestClientThatDoesNotRead(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, setup{engines: 1})
		f.engine("r0").set(func(w http.ResponseWriter, req *http.Request) {
			s := stream(w)
			for req.Context().Err() == nil {
				s.send(chunk(strings.Repeat("x", 4000)))
			}
		})
		conn, err := f.net.dial(t.Context(), "warden")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		body := streamBody("x")
		if _, err := fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body); err != nil {
			t.Fatal(err)
		}
		elapse(29 * time.Second)
		soon()
		if held, _ := f.router.Work("r0"); held != 1 {
			t.Fatalf("%d held after 29 s, want 1", held)
		}
		elapse(2 * time.Second)
		soon()
		if held, _ := f.router.Work("r0"); held != 0 {
			t.Errorf("%d held after 31 s without a read", held)
		}
		if rec := f.finished(); len(rec) != 1 || !rec[0].Aborted || !rec[0].Stalled {
			t.Errorf("records: %+v", rec)
		}
	})
}

// What counts is that a client reads at all: one that takes its answer slowly
// gets it, though that is longer than a client may stand still.
func TestClientThatReadsSlowly(t *testing.T) {
	long := strings.Repeat("a", 10*readable)
	for name, header := range map[string]string{"whole": "application/json", "stream": "text/event-stream"} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				f := newFixture(t, setup{engines: 1})
				f.engine("r0").set(func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", header)
					_, _ = io.WriteString(w, "data: "+long+"\n\n"+doneEvent)
				})
				resp, err := f.client.Do(f.request(t.Context(), "POST", "/v1/chat/completions", streamBody("x")))
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				began, got := time.Now(), 0
				for err == nil {
					var n int
					n, err = io.ReadFull(resp.Body, make([]byte, readable/2))
					got += n
					elapse(10 * time.Second)
				}
				if got != len("data: "+long+"\n\n"+doneEvent) || time.Since(began) < 2*time.Minute {
					t.Errorf("%d bytes after %v: %v", got, time.Since(began), err)
				}
				soon()
				if rec := f.finished(); len(rec) != 1 || rec[0].Aborted {
					t.Errorf("records: %+v", rec)
				}
			})
		})
	}
}

func TestBodyThatDoesNotCome(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, setup{engines: 1})
		conn, err := f.net.dial(t.Context(), "warden")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		began := time.Now()
		if _, err := io.WriteString(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(conn).ReadString('\n')
		if err != nil || !strings.Contains(line, "400") || time.Since(began) != 30*time.Second {
			t.Errorf("after %v: %q %v", time.Since(began), line, err)
		}
	})
}

// The engine closes an idle connection at the moment the next request is
// written to it: that is no failure of the replica.
func TestStaleConnectionIsNoFailure(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, setup{engines: 2})
		var served int
		f.engine("r0").set(func(w http.ResponseWriter, req *http.Request) {
			if served++; served == 2 {
				cut() // what a reused connection's closing looks like to the sender
			}
			sayHello(w, req)
		})
		replica, _ := f.chat("s1")
		if replica != "r0" {
			t.Fatalf("the first turn went to %s", replica)
		}
		if replica, reason := f.chat("s1"); replica != "r0" || reason != "sticky" {
			t.Errorf("the second turn went to %s (%s)", replica, reason)
		}
		if got := f.noted(&f.failures); len(got) != 0 {
			t.Errorf("failures reported: %v", got)
		}
	})
}

func TestEngineErrorsAreTheClients(t *testing.T) {
	long := `{"error":{"message":"` + strings.Repeat("x", maxErrorBody) + `"}}`
	for _, c := range []struct {
		name, path, body string
		status           int
		want             string
	}{
		{"bad request", "/v1/chat/completions", `{"error":{"message":"bad","code":400}}`, 400, `{"error":{"message":"bad","code":400}}`},
		{"a 500 of the request's own", "/v1/chat/completions", `{"error":{"message":"boom"}}`, 500, `{"error":{"message":"boom"}}`},
		{"context overflow, reworded", "/v1/messages",
			`{"type":"error","error":{"type":"BadRequestError","message":"This model's maximum context length is 40960 tokens. However, you requested 32000 output tokens and your prompt contains at least 21000 input tokens, for a total of at least 53000 tokens."}}`,
			400, "input length and `max_tokens` exceed context limit: 21000 + 32000 > 40960"},
		{"a very long error", "/v1/chat/completions", long, 400, "shortened by warden"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				f := newFixture(t, setup{engines: 2})
				f.every(func(*engine) http.HandlerFunc {
					return func(w http.ResponseWriter, _ *http.Request) {
						w.Header().Set("Content-Type", "application/json")
						w.WriteHeader(c.status)
						_, _ = io.WriteString(w, c.body)
					}
				})
				r := f.post(c.path, chatBody("x"))
				if r.status != c.status || !strings.Contains(r.body, c.want) || r.header.Get("X-Warden-Replica") == "" {
					t.Errorf("got %d %.300q %v", r.status, r.body, r.header)
				}
				decodeJSON(t, r.body)
				if n := len(f.engines[0].requests()) + len(f.engines[1].requests()); n != 1 {
					t.Errorf("asked %d times", n)
				}
			})
		})
	}
}

func TestEveryEngineFull(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, setup{engines: 2})
		f.every(func(*engine) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusServiceUnavailable)
				_, _ = io.WriteString(w, `{"error":{"message":"too many queued requests"}}`)
			}
		})
		r := f.post("/v1/chat/completions", chatBody("x"))
		if r.status != 503 || !strings.Contains(r.body, "too many queued") || r.header.Get("Retry-After") == "" {
			t.Errorf("got %d %s %v", r.status, r.body, r.header)
		}
		if got := f.noted(&f.failures); len(got) != 0 {
			t.Errorf("a full engine was taken for a broken one: %v", got)
		}
	})
}

// A client that hangs up at the end marker, before the engine has closed the
// stream, has had its whole answer.
func TestHangingUpAtTheEndIsNoAbort(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, setup{engines: 1})
		f.engine("r0").set(func(w http.ResponseWriter, req *http.Request) {
			stream(w).finish()
			<-req.Context().Done()
		})
		ctx, leave := context.WithCancel(t.Context())
		resp, err := f.client.Do(f.request(ctx, "POST", "/v1/chat/completions", streamBody("x")))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(resp.Body, make([]byte, len(finishChunk+usageChunk+doneEvent))); err != nil {
			t.Fatal(err)
		}
		leave()
		_ = resp.Body.Close()
		soon()
		if rec := f.finished(); len(rec) != 1 || rec[0].Aborted || rec[0].Failed || rec[0].Usage.CachedTokens != 80 || rec[0].Finish != "stop" {
			t.Errorf("records: %+v", rec)
		}
	})
}
