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
)

// alike leaves of a record what must not depend on the way that a stream took.
func alike(t *testing.T, r Record) Record {
	t.Helper()
	for _, order := range [][]time.Time{{r.Arrived, r.Placed, r.FirstByte, r.Ended}, {r.Placed, r.FirstToken, r.Ended}} {
		for i := 1; i < len(order); i++ {
			if order[i].IsZero() || order[i].Before(order[i-1]) {
				t.Errorf("times of a stream: %v", order)
			}
		}
	}
	r.RequestID, r.Waited = "", 0
	r.Arrived, r.Placed, r.FirstByte, r.FirstToken, r.Ended = time.Time{}, time.Time{}, time.Time{}, time.Time{}, time.Time{}
	return r
}

// What is known of a stream at its end, and what its client got, is the same
// over sockets as in memory: usage that was hidden or mended, sizes, the names of
// what the engine stored.
func TestSameRecordOverSockets(t *testing.T) {
	cached := "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":1000,\"output_tokens\":0}}}\n\n" +
		"event: content_block_delta\n" + `data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hello"}}` + "\n\n"
	mended := "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"input_tokens\":0,\"output_tokens\":3,\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":1000}}\n\n" +
		"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
	type kind struct{ path, body, first, rest, want string }
	kinds := []kind{{"/v1/messages", streamBody("mended"), cached, mended,
		strings.NewReplacer(`"input_tokens":0`, `"input_tokens":1`, `:1000}`, `:999}`).Replace(mended)}}
	for _, k := range streamKinds() {
		events := wholeStreams[k.path]
		kinds = append(kinds, kind{k.path, k.body, events[0], strings.Join(events[1:], ""), strings.TrimPrefix(k.want, events[0])})
	}
	for i, k := range kinds {
		var inMem Record
		for _, n := range []network{inMemory, overUnix, overTCP} {
			f := newFront(t, n, Options{}, func(c *engineConn) {
				for req := c.request(); req != nil; req = c.request() {
					c.say(streamHead, piece(k.first))
					c.wait(req)
					c.say(pieces(strings.SplitAfter(k.rest, "\n\n")[:strings.Count(k.rest, "\n\n")]...), lastPiece)
				}
			})
			resp := f.call().begun(k.path, k.body, k.first, "X-Stream", "s", "X-Session-Id", "one")
			f.at("s") <- struct{}{}
			if got, err := io.ReadAll(resp.Body); string(got) != k.want || err != nil {
				t.Errorf("%s: %v\ngot  %q\nwant %q", n, err, got, k.want)
			}
			r := alike(t, f.record())
			if n == inMemory {
				inMem = r
			}
			if got, want := fmt.Sprintf("%+v", r), fmt.Sprintf("%+v", inMem); got != want {
				t.Errorf("kind %d of %s over %s\nis        %s\nin memory %s", i, k.path, n, got, want)
			}
			if r.BytesOut != int64(len(k.first+k.want)) || r.Usage.PromptTokens < 0 && strings.Contains(k.rest, "usage") || r.Aborted || r.Failed {
				t.Errorf("%s: %+v", n, r)
			}
			if strings.Contains(k.rest, "resp_1") && len(r.Stored) != 1 {
				t.Errorf("%s: stored %q", n, r.Stored)
			}
			m := f.router.Snapshot(0).Models[0]
			if len(m.Replicas) != 1 || m.Replicas[0].Requests != 1 || m.Errors != 0 {
				t.Errorf("%s: %+v", n, m)
			}
		}
	}
}

// However a request's body came, nothing of it is taken for the next request
// when the connection goes on behind a stream.
func TestBodiesBeforeStreams(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = io.WriteString(z, streamBody("x"))
	_ = z.Close()
	head := "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nX-Stream: s\r\n"
	whole := streamBody("x")
	for name, sent := range map[string]string{
		"with its length":    fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", head, len(whole), whole),
		"in chunks":          head + "Transfer-Encoding: chunked\r\n\r\n" + pieces(whole[:20], whole[20:]) + lastPiece,
		"packed":             fmt.Sprintf("%sContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s", head, packed.Len(), packed.String()),
		"packed, in chunks":  head + "Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n" + pieces(packed.String()[:20], packed.String()[20:]) + lastPiece,
		"blanks at the end":  fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", head, len(whole)+9000, whole+strings.Repeat(" ", 9000)),
		"after 100 Continue": fmt.Sprintf("%sExpect: 100-continue\r\nContent-Length: %d\r\n\r\n%s", head, len(whole), whole),
	} {
		for _, n := range []network{overUnix, overTCP} {
			t.Run(name+", "+string(n), func(t *testing.T) {
				f := newFront(t, n, Options{}, byteByByte)
				events := wholeStreams["/v1/chat/completions"]
				c := f.call()
				for range 3 {
					if _, err := io.WriteString(c, sent); err != nil {
						t.Fatal(err)
					}
					resp := c.answer()
					for resp.StatusCode == http.StatusContinue {
						resp = c.answer()
					}
					c.expect(resp, events[0])
					f.at("s") <- struct{}{}
					if got, err := io.ReadAll(resp.Body); string(got) != strings.Join(events[1:], "") || err != nil {
						t.Fatalf("%q, %v", got, err)
					}
					if r := f.record(); r.Aborted || r.Failed {
						t.Errorf("%+v", r)
					}
				}
			})
		}
	}
}
