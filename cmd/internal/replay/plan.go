package replay

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/lm-warden/warden/cmd/internal/accesslog"
	"github.com/lm-warden/warden/cmd/internal/load"
	"github.com/lm-warden/warden/router/identity"
	"github.com/lm-warden/warden/router/record"
)

// Plan is a log made ready for playing.
type Plan struct {
	Talks []load.Talk
	// Then is what the log measured of the same requests.
	Then load.Measurement
	// Models are the names asked for, sorted.
	Models    []string
	Began     time.Time
	Length    time.Duration // from the first arrival to the last
	Requests  int
	ByAPI     map[string]int // of the requests
	Sessions  int
	Simulated bool // no real model answered then
	// What is not played: refused requests, those that generate nothing, and
	// those of whose length nothing is known.
	Refused, Silent, Unknown int
	// Twice counts lines of the logs that stood there before: one was a copy.
	Twice int
	// Warm counts conversations that began before the log.
	Warm int
}

// apis are the APIs of requests that generate text, by path.
var apis = map[string]string{
	"/v1/chat/completions": load.Chat, "/v1/completions": load.Completions, "/v1/responses": load.Responses, "/v1/messages": load.Messages,
}

// Make plans a log. limit leaves out what arrived later than so long after the
// first request; 0 is no limit.
func Make(lines []accesslog.Line, limit time.Duration) (Plan, error) {
	var p Plan
	lines = slices.Clone(lines)
	slices.SortStableFunc(lines, func(a, b accesslog.Line) int {
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.RequestID, b.RequestID))
	})
	all := len(lines)
	lines = slices.CompactFunc(lines, func(a, b accesslog.Line) bool {
		return a.RequestID != "" && a.RequestID == b.RequestID && a.Time.Equal(b.Time)
	})
	p.Twice = all - len(lines)
	var played []accesslog.Line
	for _, l := range lines {
		if p.Began.IsZero() {
			p.Began = l.Time
		}
		if limit > 0 && l.Time.Sub(p.Began) > limit {
			break
		}
		if p.plays(l) {
			played = append(played, l)
		}
	}
	if len(played) == 0 {
		return p, errors.New("the log holds no request that could be replayed: it needs answered requests with prompt_tokens")
	}
	p.Requests, p.Began = len(played), played[0].Time
	p.Length = played[len(played)-1].Time.Sub(p.Began)
	p.talk(played)
	p.then(played)
	return p, nil
}

// plays says whether a line is one that can be replayed, and counts the others.
func (p *Plan) plays(l accesslog.Line) bool {
	switch {
	case l.Outcome == record.Refused:
		p.Refused++
	case apis[l.Path] == "":
		p.Silent++
	case promptOf(l) == 0:
		p.Unknown++
	default:
		return true
	}
	return false
}

// promptOf is the length of a prompt in tokens: measured, or estimated where
// the client left before the engine said it; 0 unknown.
func promptOf(l accesslog.Line) int {
	return cmp.Or(value(l.PromptTokens, 0), value(l.PromptTokensEstimated, 0))
}

func value(n *int, otherwise int) int {
	if n == nil {
		return otherwise
	}
	return *n
}

// nameOf tells conversations apart: "" for requests that belong to none, or
// are an agent's asides, whose prompts have nothing in common with the rest.
func nameOf(l accesslog.Line) string {
	if l.Session == "" || l.Class == string(identity.Auxiliary) {
		return ""
	}
	return l.Model + " " + l.Session
}

// groupOf names those whose prompts may begin alike. Each API writes the same
// text into another prompt.
func groupOf(l accesslog.Line) string {
	return fmt.Sprintf("%s %s %s %s", l.Model, apis[l.Path], l.Client, l.Class)
}

// talk makes the conversations.
func (p *Plan) talk(lines []accesslog.Line) {
	shared := sharedOf(lines)
	index := map[string]int{}
	models := map[string]bool{}
	ends := map[string]time.Time{}
	p.ByAPI = map[string]int{}
	for _, l := range lines {
		p.ByAPI[apis[l.Path]]++
		models[l.Model] = true
		p.Simulated = p.Simulated || l.Simulated
		name := nameOf(l)
		i, known := index[name]
		if name == "" || !known {
			i = len(p.Talks)
			index[name] = i
			p.Talks = append(p.Talks, load.Talk{Name: name, Group: groupOf(l), Shared: shared.of(l), Model: l.Model})
			if name != "" {
				p.Sessions++
			}
			if beganBefore(l) {
				p.Warm++
			}
		}
		step := load.Step{
			API: apis[l.Path], At: l.Time.Sub(p.Began), Prompt: promptOf(l), Output: value(l.OutputTokens, 0), Cached: value(l.CachedTokens, 0),
			Overlaps: name != "" && known && l.Time.Before(ends[name]),
		}
		end := l.Time.Add(time.Duration(l.DurationSeconds * float64(time.Second)))
		if l.Outcome == record.Cancelled {
			step.LeftAfter = end.Sub(l.Time)
			step.Output = cmp.Or(step.Output, unheard)
		}
		if end.After(ends[name]) {
			ends[name] = end
		}
		p.Talks[i].Steps = append(p.Talks[i].Steps, step)
	}
	p.Models = slices.Sorted(maps.Keys(models))
}

// unheard is the length of answers whose client left before the engine said
// how long they were: longer than the client will wait.
const unheard = 8192

// then is what the log measured.
func (p *Plan) then(lines []accesslog.Line) {
	var turns, cut []load.Turn
	type last struct {
		n       int
		replica string
	}
	before := map[string]last{}
	for i, l := range lines {
		name := nameOf(l)
		if name == "" {
			name = fmt.Sprint("request ", i)
		}
		b := before[name]
		t := load.Turn{
			Session: name, N: b.n + 1, Began: l.Time, TTFB: seconds(l.TTFBSeconds), TTFT: seconds(l.TTFTSeconds),
			Total: seconds(&l.DurationSeconds), PromptTokens: value(l.PromptTokens, 0), CachedTokens: value(l.CachedTokens, -1),
			OutputTokens: value(l.OutputTokens, 0), Replica: l.Replica, Reason: l.Reason, Stayed: b.n > 0 && l.Replica == b.replica,
		}
		before[name] = last{b.n + 1, l.Replica}
		switch l.Outcome {
		case record.Cancelled:
			cut = append(cut, t)
			continue
		case record.Cut:
			t.Err = errors.New("the answer broke off")
		}
		turns = append(turns, t)
	}
	p.Then = load.Recorded(len(p.Talks), turns, cut)
}

func seconds(s *float64) time.Duration {
	if s == nil {
		return 0
	}
	return time.Duration(*s * float64(time.Second))
}
