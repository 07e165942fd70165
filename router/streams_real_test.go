package router

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// unasked asks for a stream without its usage, which warden then takes out.
func unasked() string { return strings.Replace(chatBody("x"), "{", `{"stream":true,`, 1) }

// byteByByte plays an engine of all APIs: the first event at once, and the rest
// when the client has it, in writes that are cut wherever X-Seed says.
func byteByByte(c *engineConn) {
	for req := c.request(); req != nil; req = c.request() {
		events := wholeStreams[req.URL.Path]
		if !c.say(streamHead, piece(events[0])) {
			return
		}
		c.wait(req)
		seed, _ := strconv.ParseUint(req.Header.Get("X-Seed"), 10, 64)
		rng := rand.New(rand.NewPCG(seed, 1))
		rest := pieces(events[1:]...) + lastPiece
		for len(rest) > 0 {
			n := min(1+rng.IntN(80), len(rest))
			if !c.say(rest[:n]) {
				return
			}
			rest = rest[n:]
		}
	}
}

// streamKind is a request for a stream, and what the answer of wholeStreams is to
// become.
type streamKind struct{ path, body, want string }

// streamKinds are all APIs, with the usage asked for and not.
func streamKinds() []streamKind {
	var kinds []streamKind
	for _, path := range slices.Sorted(maps.Keys(wholeStreams)) {
		whole := strings.Join(wholeStreams[path], "")
		kinds = append(kinds, streamKind{path, streamBody("x"), whole}, streamKind{path, unasked(), strings.Replace(whole, usageChunk, "", 1)})
	}
	return kinds
}

// Clients get the bytes that the engine sent, in all APIs, one stream or many
// at a time, wherever the engine's writes are cut.
func TestStreamsOverSockets(t *testing.T) {
	for _, n := range []network{overUnix, overTCP} {
		t.Run(string(n), func(t *testing.T) {
			f := newFront(t, n, Options{}, byteByByte)
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
			defer client.CloseIdleConnections()
			kinds := streamKinds()
			streams := 4 * 64
			parallel(streams, 64, func(i int, _ *rand.Rand) {
				kind := kinds[i%len(kinds)]
				req, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+f.address+kind.path, strings.NewReader(kind.body))
				if err != nil {
					t.Error(err)
					return
				}
				req.Header = http.Header{"Content-Type": {"application/json"}, "X-Stream": {fmt.Sprint(i)}, "X-Seed": {fmt.Sprint(i)}}
				resp, err := client.Do(req)
				if err != nil {
					t.Error(err)
					return
				}
				defer resp.Body.Close()
				first := make([]byte, len(wholeStreams[kind.path][0]))
				_, err = io.ReadFull(resp.Body, first)
				f.at(fmt.Sprint(i)) <- struct{}{}
				rest, failed := io.ReadAll(resp.Body)
				if got := string(first) + string(rest); err != nil || failed != nil || got != kind.want {
					t.Errorf("stream %d of %s: %v %v\ngot  %q\nwant %q", i, kind.path, err, failed, got, kind.want)
				}
			})
			for range streams {
				if r := f.record(); r.Aborted || r.Failed || r.FirstToken.IsZero() || r.Ended.Before(r.FirstToken) {
					t.Errorf("%+v", r)
				}
			}
			if got := f.blamed(); len(got) > 0 {
				t.Errorf("failures reported: %v", got)
			}
		})
	}
}

// What goes over a client's connection is one properly framed answer behind the
// other, also when warden writes the middle of each below net/http.
func TestStreamsOneAfterAnother(t *testing.T) {
	for _, n := range []network{inMemory, overUnix, overTCP} {
		t.Run(string(n), func(t *testing.T) {
			f := newFront(t, n, Options{}, byteByByte)
			c := f.call()
			var want []string
			kinds := streamKinds()
			for i := range 3 * len(kinds) {
				kind := kinds[i%len(kinds)]
				header := []string{"X-Stream", "s", "X-Seed", fmt.Sprint(i)}
				if i == 3*len(kinds)-1 {
					header = append(header, "Connection", "close")
				}
				resp := c.begun(kind.path, kind.body, wholeStreams[kind.path][0], header...)
				f.at("s") <- struct{}{}
				if _, err := io.Copy(io.Discard, resp.Body); err != nil {
					t.Fatal(err)
				}
				want = append(want, kind.want)
			}
			if _, err := c.in.ReadByte(); err != io.EOF {
				t.Errorf("Connection: close was followed by %v", err)
			}
			bodies, err := answersIn(c.raw.Bytes())
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(bodies, want) {
				t.Errorf("got %d answers %q\nwant %d %q", len(bodies), bodies, len(want), want)
			}
		})
	}
}

// answersIn takes chunked answers apart, more strictly than net/http does.
func answersIn(raw []byte) (bodies []string, err error) {
	for len(raw) > 0 {
		head, rest, ok := bytes.Cut(raw, []byte("\r\n\r\n"))
		if !ok || !bytes.HasPrefix(head, []byte("HTTP/1.1 200 OK\r\n")) || !bytes.Contains(head, []byte("\r\nTransfer-Encoding: chunked")) {
			return nil, fmt.Errorf("not the head of an answer: %.300q", raw)
		}
		var body strings.Builder
		for size := int64(-1); size != 0; {
			line, behind, ok := bytes.Cut(rest, []byte("\r\n"))
			if size, err = strconv.ParseInt(string(line), 16, 32); err != nil || !ok || size < 0 || int64(len(behind)) < size+2 {
				return nil, fmt.Errorf("not a chunk: %.300q", rest)
			}
			body.Write(behind[:size])
			if !bytes.HasPrefix(behind[size:], []byte("\r\n")) {
				return nil, fmt.Errorf("a chunk ends with %.20q", behind[size:])
			}
			rest = behind[size+2:]
		}
		bodies, raw = append(bodies, body.String()), rest
	}
	return bodies, nil
}

// The end of a stream, cut after each of its bytes, chunk sizes and line ends
// included, over one connection to the engine and one to the client.
func TestStreamCutAfterEveryByte(t *testing.T) {
	first := chunk("first")
	rest := pieces(chunk("second"), finishChunk, usageChunk, doneEvent) + lastPiece
	for _, n := range []network{overUnix, overTCP} {
		t.Run(string(n), func(t *testing.T) {
			f := newFront(t, n, Options{}, func(c *engineConn) {
				for req := c.request(); req != nil; req = c.request() {
					at, _ := strconv.Atoi(req.Header.Get("X-Cut"))
					c.say(streamHead, piece(first))
					c.wait(req)
					c.say(rest[:at])
					c.taken()
					c.say(rest[at:])
				}
				if c.number > 1 {
					t.Errorf("the connection to the engine was not used again")
				}
			})
			for body, want := range map[string]string{
				streamBody("x"): chunk("second") + finishChunk + usageChunk + doneEvent,
				unasked():       chunk("second") + finishChunk + doneEvent,
			} {
				c := f.call()
				step := 1
				if n == overTCP { // whose other side takes its time to say what it has
					step = 7
				}
				for at := 0; at < len(rest); at += step {
					resp := c.begun("/v1/chat/completions", body, first, "X-Stream", "s", "X-Cut", fmt.Sprint(at))
					f.at("s") <- struct{}{}
					got, err := io.ReadAll(resp.Body)
					if err != nil || string(got) != want {
						t.Fatalf("cut at %d, behind %q: %v\ngot  %q\nwant %q", at, rest[:at], err, got, want)
					}
					if r := f.record(); r.Usage.CachedTokens != 80 || r.Finish != "stop" || r.BytesOut != int64(len(first+want)) {
						t.Fatalf("cut at %d: %+v", at, r)
					}
				}
			}
		})
	}
}

// Events may be larger than everything between the engine and the client holds.
func TestStreamOfLargeEvents(t *testing.T) {
	large := ""
	for i := range 2 {
		large += chunk(fmt.Sprint(i) + strings.Repeat(string(rune('a'+i)), 1<<20))
	}
	for _, n := range []network{overUnix, overTCP} {
		for name, body := range map[string]string{"as it is": streamBody("x"), "edited": unasked()} {
			t.Run(string(n)+", "+name, func(t *testing.T) {
				f := newFront(t, n, Options{}, func(c *engineConn) {
					for req := c.request(); req != nil; req = c.request() {
						c.say(streamHead, piece(chunk("first")))
						c.wait(req)
						c.say(piece(large), pieces(finishChunk, usageChunk, doneEvent), lastPiece)
					}
				})
				want := large + finishChunk + usageChunk + doneEvent
				if name == "edited" {
					want = large + finishChunk + doneEvent
				}
				c := f.call()
				for range 2 {
					resp := c.begun("/v1/chat/completions", body, chunk("first"), "X-Stream", "s")
					f.at("s") <- struct{}{}
					got, err := io.ReadAll(resp.Body)
					if err != nil || string(got) != want {
						t.Fatalf("%d bytes of %d, %v", len(got), len(want), err)
					}
					if r := f.record(); r.BytesOut != int64(len(chunk("first")+want)) || r.Aborted || r.Usage.CachedTokens != 80 {
						t.Errorf("%+v", r)
					}
				}
			})
		}
	}
}

// A client may send its next requests before it has the answers.
func TestPipelinedStreams(t *testing.T) {
	for _, n := range []network{inMemory, overUnix, overTCP} {
		for name, together := range map[string]bool{"in one write": true, "while the first runs": false} {
			t.Run(string(n)+", "+name, func(t *testing.T) {
				f := newFront(t, n, Options{}, byteByByte)
				c := f.call()
				kinds := streamKinds()
				asked := ""
				for i, kind := range kinds {
					asked += asking(kind.path, kind.body, "X-Stream", fmt.Sprint(i), "X-Seed", "1")
				}
				first := asked[:strings.Index(asked[1:], "POST ")+1]
				if together {
					first = asked
				}
				sent := make(chan error, 2)
				go func() { // in memory nothing holds what is not read
					_, err := io.WriteString(c, first)
					sent <- err
				}()
				for i, kind := range kinds {
					resp := c.answer()
					c.expect(resp, wholeStreams[kind.path][0])
					if i == 0 && !together {
						go func() {
							_, err := io.WriteString(c, asked[len(first):])
							sent <- err
						}()
						// net/http watches for the client's leaving with a read, which
						// has now got the next request's first byte.
						if f.network != inMemory {
							if err := <-sent; err != nil {
								t.Fatal(err)
							}
						}
					}
					f.at(fmt.Sprint(i)) <- struct{}{}
					rest, err := io.ReadAll(resp.Body)
					if err != nil || wholeStreams[kind.path][0]+string(rest) != kind.want {
						t.Fatalf("answer %d: %q, %v", i, rest, err)
					}
				}
				if err := <-sent; err != nil {
					t.Error(err)
				}
			})
		}
	}
}
