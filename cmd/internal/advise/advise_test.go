package advise

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lm-warden/warden/supervisor/control"
	"github.com/lm-warden/warden/supervisor/control/advice"
)

var start = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func look(replicas ...ReplicaLook) []Look {
	return []Look{{Alias: "m", Replicas: replicas, Queued: 1}}
}

func replica(id string, need int, c Counters) ReplicaLook {
	return ReplicaLook{ID: id, Generation: 1, Ready: true, Sessions: 2, Need: need, Capacity: 40_000, Held: 1, Waiting: 2, Counted: true, Counters: c}
}

func TestLooksBecomeMinutes(t *testing.T) {
	r := NewRecorder(start)
	small := replica("r1", 0, Counters{})
	small.Sessions, small.Capacity = 0, 30_000
	add := func(second int, replicas ...ReplicaLook) {
		l := look(replicas...)
		l[0].Talks = []Talk{{Key: "a", Busy: true, Tokens: 9_000}, {Key: "idle", Seen: start.Add(-2 * time.Hour), Tokens: 99_000}}
		r.Add(start.Add(time.Duration(second)*time.Second), l)
	}
	add(1, replica("r0", 10_000, Counters{Queried: 5_000, Hits: 5_000}), small)
	add(31, replica("r0", 30_000, Counters{Queried: 6_000, Hits: 5_700, Preemptions: 2}), small)
	add(61, replica("r0", 20_000, Counters{Queried: 6_500, Hits: 5_900, Preemptions: 2, HostQueried: 300, HostHits: 200}))
	want := []control.Minute{
		{
			At: start, Ready: 2, Sessions: 11. / 12, PeakSessions: 1, Need: 10_000 * 11. / 12, PeakNeed: 10_000, LargestSession: 9_000, Capacity: 70_000, SmallestCapacity: 30_000,
			Held: 2, Waiting: 4, PeakQueued: 1, QueriedTokens: 1_000, HitTokens: 700, Preemptions: 2,
		},
		{
			At: start.Add(time.Minute), Ready: 1, Sessions: 1, PeakSessions: 1, Need: 10_000, PeakNeed: 10_000, LargestSession: 9_000, Capacity: 40_000, SmallestCapacity: 40_000,
			Held: 1, Waiting: 2, PeakQueued: 1, QueriedTokens: 500, HitTokens: 200, HostQueriedTokens: 300, HostHitTokens: 200,
		},
	}
	h := r.History(start.Add(62 * time.Second))
	if d := cmp.Diff(want, h.Models[0].Minutes); d != "" {
		t.Error(d)
	}
	if !h.Started.Equal(start) || h.Models[0].Alias != "m" {
		t.Errorf("%+v", h)
	}
}

// A conversation is in use from its first turn to its last, pauses included, and
// not a moment longer: those that ended do not fill the cache in hindsight.
func TestConversationsInUse(t *testing.T) {
	r := NewRecorder(start)
	at := func(second int) time.Time { return start.Add(time.Duration(second) * time.Second) }
	for second := 0; second < 120; second += 5 {
		var talks []Talk
		for i := range 8 { // one every 15 s, each with a turn at its begin and one 30 s later
			begin := 15 * i
			switch {
			case second < begin:
			case second < begin+5 || second >= begin+30 && second < begin+35:
				talks = append(talks, Talk{Key: string(rune('a' + i)), Busy: true})
			case second < begin+30:
				talks = append(talks, Talk{Key: string(rune('a' + i)), Seen: at(begin)})
			default:
				talks = append(talks, Talk{Key: string(rune('a' + i)), Seen: at(begin + 30)})
			}
		}
		r.Add(at(second), []Look{{Alias: "m", Talks: talks}})
	}
	m := r.History(at(120)).Models[0].Minutes
	// From 30 s on two overlap, at the moment where one ends and another begins three.
	if m[0].PeakSessions != 3 || m[0].Sessions < 1.5 || m[0].Sessions > 2.5 || m[1].PeakSessions != 3 {
		t.Errorf("%d at most, %.1f on average, then %d", m[0].PeakSessions, m[0].Sessions, m[1].PeakSessions)
	}
}

// The counters of a new process begin at zero, and an engine that is down says
// nothing.
func TestCountersOverARestart(t *testing.T) {
	r := NewRecorder(start)
	add := func(second int, generation uint64, c Counters) {
		l := replica("r0", 0, c)
		l.Generation, l.Counted = generation, c != Counters{}
		r.Add(start.Add(time.Duration(second)*time.Second), look(l))
	}
	add(0, 1, Counters{Queried: 90_000, Hits: 80_000})
	add(5, 1, Counters{})
	add(10, 2, Counters{Queried: 100, Hits: 10})
	add(15, 2, Counters{Queried: 150, Hits: 60})
	add(20, 2, Counters{Queried: 40, Hits: 30}) // went back without a new generation
	m := r.History(start.Add(time.Minute)).Models[0].Minutes[0]
	if m.QueriedTokens != 190 || m.HitTokens != 90 {
		t.Errorf("%d queried, %d hits; want 190 and 90", m.QueriedTokens, m.HitTokens)
	}
}

// An engine that was adopted has counted for hours before it is read first.
func TestCountersOfAnAdoptedEngine(t *testing.T) {
	r := NewRecorder(start)
	unread := replica("r0", 0, Counters{})
	unread.Counted = false
	r.Add(start, look(unread))
	r.Add(start.Add(5*time.Second), look(replica("r0", 0, Counters{Queried: 90_000_000, Hits: 80_000_000})))
	r.Add(start.Add(10*time.Second), look(replica("r0", 0, Counters{Queried: 90_000_100, Hits: 80_000_040})))
	m := r.History(start.Add(time.Minute)).Models[0].Minutes[0]
	if m.QueriedTokens != 100 || m.HitTokens != 40 {
		t.Errorf("%d queried, %d hits; want 100 and 40", m.QueriedTokens, m.HitTokens)
	}
}

// A clock that is set back (it was wrong until the network was there) does not
// keep the recorder from what is true now.
func TestClockSetBack(t *testing.T) {
	r := NewRecorder(start)
	busy := look(replica("r0", 1_000, Counters{}))
	busy[0].Talks = []Talk{{Key: "a", Busy: true, Tokens: 500}}
	ahead := start.Add(24 * time.Hour)
	for second := 0; second < 60; second += 5 {
		r.Add(ahead.Add(time.Duration(second)*time.Second), busy)
	}
	for second := 0; second < 120; second += 5 {
		r.Add(start.Add(time.Duration(second)*time.Second), busy)
	}
	minutes := r.History(start.Add(2 * time.Minute)).Models[0].Minutes
	if len(minutes) != 2 || !minutes[0].At.Equal(start) || minutes[1].PeakSessions != 1 || minutes[1].Sessions < 0.9 {
		t.Errorf("%+v", minutes)
	}
}

func TestAnHourIsKept(t *testing.T) {
	r := NewRecorder(start)
	for minute := range 200 {
		l := look(replica("r0", 0, Counters{}))
		l[0].Talks = []Talk{{Key: fmt.Sprint(minute), Busy: true, Tokens: minute}}
		r.Add(start.Add(time.Duration(minute)*time.Minute), l)
	}
	minutes := r.History(start.Add(199*time.Minute + 5*time.Second)).Models[0].Minutes
	if len(minutes) != kept || minutes[0].LargestSession != 139 || minutes[len(minutes)-1].LargestSession != 199 {
		t.Errorf("%d minutes, from %+v", len(minutes), minutes[0])
	}
	if n := len(r.models[0].spans); n > kept+1 {
		t.Errorf("%d conversations are remembered", n)
	}
	// After a pause (a suspended machine) old minutes are no longer the last hour's.
	if left := r.History(start.Add(300 * time.Minute)).Models[0].Minutes; len(left) != 0 {
		t.Errorf("%d minutes of more than an hour ago", len(left))
	}
}

func TestPrint(t *testing.T) {
	minute := control.Minute{
		Ready: 4, Sessions: 24, PeakSessions: 24, Need: 264_000, PeakNeed: 264_000, LargestSession: 15_000,
		Capacity: 160_000, SmallestCapacity: 40_000, Held: 4, QueriedTokens: 100, HitTokens: 29,
	}
	s := control.Status{Simulated: true, Models: []control.Model{{Alias: "m", Policy: control.PolicyAffinity, FP8KV: "no"}, {Alias: "idle"}}}
	h := control.History{Now: start.Add(time.Hour), Started: start, Models: []control.ModelHistory{{Alias: "m", Minutes: []control.Minute{minute}}}}
	var b bytes.Buffer
	if err := Print(&b, advice.Advise(h, s)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"SIMULATED", "m: the conversations in use need up to 264k tokens and the KV cache holds 160k",
		"conversations        24.0  24    14", "fewer conversations  14", "admission", "(8-bit KV cache)", "idle: no load yet",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing in\n%s", want, b.String())
		}
	}
}
