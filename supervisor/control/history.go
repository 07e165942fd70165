package control

import (
	"context"
	"net/http"
	"time"
)

// History is what a warden has seen of its models' memory, minute by minute, for at most the last hour.
type History struct {
	Schema  int            `json:"schema"`
	Now     time.Time      `json:"now"`
	Started time.Time      `json:"started"` // nothing is known from before
	Models  []ModelHistory `json:"models"`
}

// ModelHistory holds one model's minutes, the oldest first.
type ModelHistory struct {
	Alias   string   `json:"alias"`
	Minutes []Minute `json:"minutes"`
}

// Minute sums up one minute of a model. Means are over the looks of that minute, one each few seconds; counters are what
// was added in it. Token counts are of all ready replicas together unless they say otherwise.
type Minute struct {
	At                time.Time `json:"at"`            // its beginning
	Ready             int       `json:"ready"`         // most replicas that were ready
	Sessions          float64   `json:"sessions"`      // mean number of conversations in use
	PeakSessions      int       `json:"peak_sessions"` // most of them
	Need              float64   `json:"need_tokens"`   // mean KV tokens that these conversations need
	PeakNeed          int       `json:"peak_need_tokens"`
	LargestSession    int       `json:"largest_session_tokens"` // tokens of the longest conversation
	Capacity          int       `json:"capacity_tokens"`        // KV tokens
	SmallestCapacity  int       `json:"smallest_capacity_tokens"`
	Held              float64   `json:"held"`        // mean turns in flight
	Waiting           float64   `json:"waiting"`     // mean turns that waited inside the engines
	PeakQueued        int       `json:"peak_queued"` // most turns that warden held back
	QueriedTokens     uint64    `json:"queried_tokens"`
	HitTokens         uint64    `json:"hit_tokens"`          // of those, in a prefix cache, the host tier included
	HostQueriedTokens uint64    `json:"host_queried_tokens"` // looked for in the host tier
	HostHitTokens     uint64    `json:"host_hit_tokens"`
	Preemptions       uint64    `json:"preemptions"`
}

// Historian is a Daemon that remembers. It is an interface of its own because not every Daemon does.
type Historian interface {
	History() History
}

// History returns the last hour.
func (c *Client) History(ctx context.Context) (h History, err error) {
	err = c.call(ctx, http.MethodGet, "/v1/history", nil, &h)
	return h, err
}

func (s *Server) history(w http.ResponseWriter, _ *http.Request) {
	d, ok := s.opts.Daemon.(Historian)
	if !ok {
		writeError(w, &Error{Code: CodeNotFound, Message: "this daemon keeps no history"})
		return
	}
	h := d.History()
	h.Schema = Schema
	writeJSON(w, http.StatusOK, h)
}
