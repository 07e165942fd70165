package gate

import (
	"maps"
	"net/http"
	"slices"
	"testing"
)

func names(h http.Header) []string { return slices.Sorted(maps.Keys(h)) }

// Everything passes but what is named, by warden or by the Connection header.
func TestHeadersOfTheOtherSide(t *testing.T) {
	in := http.Header{
		"Accept": {"a", "b"}, "User-Agent": {"u"}, "X-Custom": {"c"},
		"Connection": {"keep-alive, x-hop", " X-Other ,"}, "X-Hop": {"h"}, "X-Other": {"o"}, "Keep-Alive": {"k"}, "Te": {"t"},
		"Authorization": {"secret"}, "X-Api-Key": {"secret"}, "X_api_key": {"secret"}, "Cookie": {"c"}, "Origin": {"o"},
		"X-Vllm-Priority": {"-1"}, "X-Data-Parallel-Rank": {"1"}, "X-Session-Id": {"s"}, "X-Request-Id": {"r"}, "Content-Length": {"1"},
	}
	before := names(in)
	out := Forwarded(in)
	if got, want := names(out), []string{"Accept", "User-Agent", "X-Custom"}; !slices.Equal(got, want) || !slices.Equal(out["Accept"], in["Accept"]) {
		t.Errorf("an engine gets %v, want %v", out, want)
	}
	out.Set("Accept", "changed")
	out.Set("X-Request-Id", "ours")
	if !slices.Equal(names(in), before) || in.Get("Accept") != "a" || in.Get("X-Request-Id") != "r" {
		t.Errorf("the client's headers became %v", in)
	}

	to := http.Header{"X-Request-Id": {"ours"}, "Vary": {"Origin"}}
	Returned(to, http.Header{
		"Content-Type": {"t"}, "X-Custom": {"c", "d"}, "Connection": {"x-hop, vary"}, "X-Hop": {"h"}, "Date": {"d"},
		"X-Request-Id": {"theirs"}, "Access-Control-Allow-Origin": {"*"}, "Transfer-Encoding": {"chunked"},
	})
	if got, want := names(to), []string{"Content-Type", "Vary", "X-Custom", "X-Request-Id"}; !slices.Equal(got, want) ||
		to.Get("X-Request-Id") != "ours" || len(to["X-Custom"]) != 2 {
		t.Errorf("a client gets %v, want %v", to, want)
	}
}
