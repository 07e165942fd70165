package placement

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// user plays conversations of one API key in a closed loop.
type user struct {
	key      string
	sessions int
	served   float64         // tokens of prompts that had to be computed, and of answers
	waits    []time.Duration // of each turn
}

// Jain's index of what the users got: 1 when all got the same, 1/n when one
// got everything.
func jain(users []*user) float64 {
	sum, squares := 0.0, 0.0
	for _, u := range users {
		sum += u.served
		squares += u.served * u.served
	}
	return sum * sum / (float64(len(users)) * squares)
}

// talk is one conversation of a user: six turns, then another one begins.
type talk struct {
	user   *user
	number int // of the conversation, over all
	turn   int
	prompt int
}

// The reference workload: a prompt of 10.8k tokens grows by 400 a turn.
const (
	talkTurns  = 6
	talkPrompt = 10_800
	talkGrowth = 400
	talkOutput = 100
)

// playUsers lets users talk for a while over two replicas that compute 3,000
// prompt tokens and 25 answer tokens a second for each turn.
func playUsers(t *testing.T, policy string, length time.Duration, users []*user) {
	t.Helper()
	set := fleet(2)
	for i := range set {
		set[i].MaxNumSeqs = 4
	}
	r := newRig(t, Config{Policy: policy}, set...)
	began, talks := r.now, 0
	type open struct {
		*talk
		ask time.Time
	}
	turns := map[uint64]open{}
	ends := map[uint64]time.Time{}
	sent := func(at *talk) {
		id := r.arrive(Turn{Key: key(at.number), APIKey: at.user.key, PromptTokens: at.prompt, Arrived: r.now})
		turns[id] = open{at, r.now}
	}
	fresh := func(u *user) *talk {
		talks++
		return &talk{user: u, number: talks, prompt: talkPrompt}
	}
	for i := range users[0].sessions { // the users begin in turn
		for _, u := range users {
			if i < u.sessions {
				sent(fresh(u))
			}
		}
	}
	for r.now.Before(began.Add(length)) {
		next, at := uint64(0), time.Time{}
		for id, d := range r.held {
			if ends[id].IsZero() {
				work := time.Duration(turns[id].prompt-d.ExpectedCached) * time.Second / 3000
				ends[id] = r.now.Add(work + talkOutput*time.Second/25)
				turns[id].user.waits = append(turns[id].user.waits, r.now.Sub(turns[id].ask))
			}
			if next == 0 || ends[id].Before(at) || ends[id].Equal(at) && id < next {
				next, at = id, ends[id]
			}
		}
		if r.wake.After(r.now) && (next == 0 || r.wake.Before(at)) {
			r.now = r.wake
			r.step(Tick{})
			continue
		}
		if next == 0 {
			t.Fatalf("%d turns wait for nothing", len(r.waiting))
		}
		r.now = at
		one, cached := turns[next], r.held[next].ExpectedCached
		r.finish(next, Outcome{PromptTokens: one.prompt, OutputTokens: talkOutput, CachedTokens: cached, FinishClass: "tool_calls"})
		one.user.served += float64(one.prompt - cached + talkOutput)
		delete(turns, next)
		following := one.talk
		if one.turn++; one.turn == talkTurns {
			following = fresh(one.user)
		} else {
			one.prompt += talkGrowth
		}
		sent(following)
	}
}

// One of four users has five times as many conversations as each of the others,
// who have enough to use their share: all get the same.
func TestGreedyUserGetsItsShareOnly(t *testing.T) {
	for _, policy := range []string{PolicyBalance, PolicyAffinity, PolicyAdmission} {
		t.Run(policy, func(t *testing.T) {
			users := []*user{{key: "greedy", sessions: 40}}
			for i := range 3 {
				users = append(users, &user{key: fmt.Sprint("modest", i), sessions: 8})
			}
			playUsers(t, policy, time.Hour, users)
			for _, u := range users {
				t.Logf("%-8s %9.0f tokens, %4d turns", u.key, u.served, len(u.waits))
			}
			if index := jain(users); index < 0.98 {
				t.Errorf("Jain's index %.3f, want 0.98 at least", index)
			}
		})
	}
}

// Users who ask for less than their share hardly notice a greedy one: a turn of
// theirs waits for the next place, not for those before it in the queue.
func TestModestUsersDoNotWaitForAGreedyOne(t *testing.T) {
	for _, policy := range []string{PolicyBalance, PolicyAffinity, PolicyAdmission} {
		t.Run(policy, func(t *testing.T) {
			greedy := &user{key: "greedy", sessions: 40}
			modest := &user{key: "modest", sessions: 1}
			playUsers(t, policy, time.Hour, []*user{greedy, modest})
			slices.Sort(greedy.waits)
			slices.Sort(modest.waits)
			p95 := func(u *user) time.Duration { return u.waits[len(u.waits)*95/100] }
			t.Logf("p95 of the wait: greedy %s, modest %s over %d turns", p95(greedy), p95(modest), len(modest.waits))
			if p95(modest) > 5*time.Second || len(modest.waits) < 100 {
				t.Errorf("the modest user waits %s at p95", p95(modest))
			}
		})
	}
}
