package benchpath

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

func TestBodies(t *testing.T) {
	want := script{Events: 200, Interval: 20 * time.Millisecond}
	for _, size := range append(bodySizes(), withTools, withTools-1) {
		tm, err := newTemplate("m", size, want, true)
		if err != nil {
			t.Fatal(err)
		}
		a, b := tm.of(1), tm.of(2)
		tm.setTurn(a, 7)
		if len(a) != size || !gjson.ValidBytes(a) {
			t.Errorf("%d bytes, want %d; valid: %v", len(a), size, gjson.ValidBytes(a))
		}
		if findScript(a) != want || !says(a, "stream") || !says(a, "include_usage") {
			t.Errorf("%d bytes: script %+v, stream %v", size, findScript(a), says(a, "stream"))
		}
		body := gjson.ParseBytes(a)
		if got := body.Get("messages.1.content").String(); !strings.Contains(got, "00000001") {
			t.Errorf("session in %q", got)
		}
		last := body.Get("messages").Array()
		if got := last[len(last)-1].Get("content").String(); !strings.HasPrefix(got, "Turn 00000007. ") {
			t.Errorf("turn in %q", got[:40])
		}
		if bytes.Equal(a, b) || bytes.Contains(b, []byte("00000007")) {
			t.Errorf("sessions share a body")
		}
		if tools := len(body.Get("tools").Array()); (tools > 0) != (size >= withTools) {
			t.Errorf("%d bytes with %d tools", size, tools)
		}
		// An agent's body is escape-dense: a quote, a new line or a backslash in
		// every 30 bytes at least.
		if escapes := bytes.Count(a, []byte(`\`)); size > 2*withTools && escapes < size/30 {
			t.Errorf("%d escapes in %d bytes", escapes, size)
		}
	}
	if _, err := newTemplate("m", 100, want, true); err == nil {
		t.Error("a body of 100 bytes")
	}
	tm, err := newTemplate("m", smallBody, script{Events: 1}, false)
	if err != nil || says(tm.raw, "stream") {
		t.Errorf("%v, %s", err, tm.raw)
	}
}

func TestFindScript(t *testing.T) {
	for body, want := range map[string]script{
		`ping`:                            {1, 0},
		`"bench-script 200 20000 end xx"`: {200, 20 * time.Millisecond},
		`bench-script 5 0 end bench-script 6 1 end`: {6, time.Microsecond},
		`bench-script 5 0`:                          {1, 0},
		`bench-script 0 0 end`:                      {1, 0},
		`bench-script 5 -1 end`:                     {1, 0},
		`bench-script 5 5 en`:                       {1, 0},
	} {
		if got := findScript([]byte(body)); got != want {
			t.Errorf("%q: %+v, want %+v", body, got, want)
		}
	}
	if !says([]byte(`{"stream": true}`), "stream") || says([]byte(`{"stream":false,"x":true}`), "stream") {
		t.Error("stream flags")
	}
}
