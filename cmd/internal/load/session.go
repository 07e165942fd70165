package load

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// message is one entry of the conversation, in the form both APIs accept.
type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// session is one synthetic conversation.
type session struct {
	o       *Options
	rng     *rand.Rand
	id      string
	system  string
	history []message
	replica string // that answered the last turn; "" before the first
}

func newSession(o *Options, rng *rand.Rand) *session {
	shared := rand.New(rand.NewPCG(o.Seed, 1)) // the same system text in every session
	return &session{
		o: o, rng: rng,
		id:     fmt.Sprintf("bench-%016x%016x", rng.Uint64(), rng.Uint64()),
		system: words(shared, o.chars(o.Shape.System)),
	}
}

func (o *Options) chars(tokens int) int { return int(float64(tokens) * o.CharsPerToken) }

// run plays all turns and says how long that took and whether all succeeded.
func (s *session) run(ctx context.Context, rec *recorder) sessionEnd {
	began := time.Now()
	for n := 1; n <= s.o.Shape.Turns; n++ {
		length := s.o.Shape.Next
		if n == 1 {
			length = s.o.Shape.First
		}
		s.history = append(s.history, message{"user", words(s.rng, s.o.chars(length))})
		turn := s.ask(ctx, n)
		if ctx.Err() != nil {
			rec.cutTurn(turn)
			return sessionEnd{}
		}
		rec.turn(turn)
		if turn.Err != nil {
			pause(ctx, time.Second) // an agent would back off, too
			return sessionEnd{took: time.Since(began)}
		}
		s.history = append(s.history, message{"assistant", turn.text})
		if s.o.Shape.Gap > 0 && n < s.o.Shape.Turns {
			pause(ctx, time.Duration(s.rng.ExpFloat64()*float64(s.o.Shape.Gap)))
		}
	}
	return sessionEnd{took: time.Since(began), complete: true}
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
