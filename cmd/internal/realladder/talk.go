package realladder

import (
	"bytes"
	"encoding/json"
	"hash/fnv"
	"io"
	"net/http"
	"time"

	"github.com/tidwall/sjson"
)

// answerToken is what all answers consist of. A random model writes bytes that
// are no text and come back as other tokens; this one comes back as it was.
const answerToken = 'y'

// The answers' lengths, in tokens: a quarter of the reference's.
const (
	outputMin = 16
	outputMax = 64
)

// replayable makes the load's answers replay token by token, with lengths that
// depend on the conversation and the turn, and names the session to everyone in
// their way.
type replayable struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t replayable) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		return t.next.RoundTrip(r)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	session := r.Header.Get("X-Session-ID")
	for _, field := range []struct {
		name  string
		value any
	}{
		{"max_tokens", answerLength(session, len(body))},
		{"allowed_token_ids", []int{answerToken}}, {"ignore_eos", true},
	} {
		if body, err = sjson.SetBytes(body, field.name, field.value); err != nil {
			return nil, err
		}
	}
	r = r.Clone(r.Context())
	r.Header.Set("X-SMG-Routing-Key", session)
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return t.next.RoundTrip(r)
}

// answerLength is uniform between outputMin and outputMax.
func answerLength(session string, size int) int {
	h := fnv.New64a()
	raw, _ := json.Marshal([]any{session, size}) // a string and a number always marshal
	h.Write(raw)
	return outputMin + int(h.Sum64()>>32)%(outputMax-outputMin+1)
}

// loadClient is the client of one cell.
func loadClient(sessions int) *http.Client {
	return &http.Client{Transport: replayable{&http.Transport{
		MaxIdleConnsPerHost: sessions, IdleConnTimeout: 4 * time.Second, DisableCompression: true,
	}}}
}
