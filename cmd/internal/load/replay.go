package load

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// Talk is one recorded conversation, or a single request that belongs to none.
type Talk struct {
	// Name tells conversations apart; "" for a request without one, which is
	// then sent without an id.
	Name string
	// Group names those whose prompts begin with the same text, as those of one
	// program do.
	Group string
	// Shared is how many tokens of that text the prompts of this one begin with.
	Shared int
	Model  string
	Steps  []Step // by time
}

// Step is one recorded request.
type Step struct {
	API            string        // that it is sent with
	At             time.Duration // after the first request of the recording
	Prompt, Output int           // tokens
	// Cached is how much of the prompt came from a prefix cache: when a prompt
	// is shorter than what went before, so much of its beginning is the same.
	Cached int
	// Overlaps says that the step before had not ended when this one came.
	Overlaps bool
	// LeftAfter is when the client left; 0 when it stayed.
	LeftAfter time.Duration
}

// Replay sends recorded conversations again, speed times as fast as they came,
// with synthetic text of the same number of tokens. A step is sent at its time,
// but not before the one before it has ended, unless they overlapped in the
// recording: an agent cannot go on before it was answered.
func Replay(ctx context.Context, o Options, talks []Talk, speed float64) (Measurement, Drift, error) {
	if o.Sessions = len(talks); o.Sessions == 0 {
		return Measurement{}, Drift{}, errors.New("nothing to replay")
	}
	if !(speed > 0) {
		return Measurement{}, Drift{}, fmt.Errorf("speed %v: must be above 0", speed)
	}
	o.IgnoreEOS = true
	if err := o.setDefaults(); err != nil {
		return Measurement{}, Drift{}, err
	}
	defer o.Client.CloseIdleConnections()
	p := &player{o: &o, speed: speed, rec: &recorder{started: time.Now(), onTurn: o.OnTurn}, chars: float64(calibrationTokens) * o.CharsPerToken, tokens: calibrationTokens}
	var wg sync.WaitGroup
	for i := range talks {
		wg.Go(func() { p.play(ctx, &talks[i], i) })
	}
	wg.Wait()
	p.rec.ended = time.Now()
	return Measurement{Sessions: len(talks), runs: []*recorder{p.rec}}, p.drift, ctx.Err()
}

// player replays; its fields below mu are shared by all conversations.
type player struct {
	o     *Options
	speed float64
	rec   *recorder

	mu            sync.Mutex
	chars, tokens float64 // of what was measured so far: how long a token is
	drift         Drift
}

// charsPerToken is what the answers so far have taught, beginning with what the
// options say.
func (p *player) charsPerToken() float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.chars / p.tokens
}

// play replays one conversation.
func (p *player) play(ctx context.Context, t *Talk, index int) {
	o := *p.o
	if t.Model != "" {
		o.Model = t.Model
	}
	var v *voice // its text is not made before it is needed: a log holds many conversations
	var began time.Time
	var overlapping sync.WaitGroup
	defer overlapping.Wait()
	for n, step := range t.Steps {
		due := p.rec.started.Add(time.Duration(float64(step.At) / p.speed))
		if !step.Overlaps {
			overlapping.Wait()
		}
		if pause(ctx, time.Until(due)); ctx.Err() != nil {
			return
		}
		p.sent(time.Since(due))
		if v == nil {
			v, began = newVoice(p, &o, t, index), time.Now()
		}
		prompt := v.compose(step, n+1)
		overlapping.Go(func() { p.step(ctx, v, prompt, step, n+1) })
	}
	overlapping.Wait()
	if ctx.Err() == nil {
		p.rec.session(sessionEnd{took: time.Since(began), complete: true})
	}
}

// step sends one request and notes what became of it.
func (p *player) step(ctx context.Context, v *voice, prompt *session, step Step, n int) {
	asked := ctx
	if step.LeftAfter > 0 {
		var leave context.CancelFunc
		asked, leave = context.WithTimeout(ctx, step.LeftAfter)
		defer leave()
	}
	turn := prompt.ask(asked, n)
	switch {
	case ctx.Err() != nil || asked.Err() != nil:
		p.rec.cutTurn(turn)
	default:
		p.rec.turn(turn)
		if turn.Err == nil {
			p.learn(prompt, turn, step)
		}
	}
	v.answered(n, prompt, turn)
}

// learn takes over how long the prompt really was.
func (p *player) learn(prompt *session, t Turn, step Step) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drift.add(step, t)
	if t.PromptTokens > 0 {
		p.chars += float64(prompt.length())
		p.tokens += float64(t.PromptTokens)
	}
}

// late is how far behind its time a step counts as late: what a busy machine
// needs to wake up is no lateness.
const late = 100 * time.Millisecond

func (p *player) sent(behind time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drift.Sent++
	if behind > late {
		p.drift.Late++
		p.drift.LatestBy = max(p.drift.LatestBy, behind.Seconds())
	}
}

// voice writes the prompts of one conversation: each is the one before, the
// answer to it and as many new words as are missing.
type voice struct {
	player *player
	talk   *Talk
	rng    *rand.Rand

	mu      sync.Mutex
	session session // its history is that of the next prompt
	tokens  int     // of that history, as measured
	latest  int     // step whose prompt it was
	chars   float64 // of a token of this conversation; 0 before its first answer
}

func newVoice(p *player, o *Options, t *Talk, index int) *voice {
	rng := rand.New(rand.NewPCG(p.o.Seed+p.o.Part<<32, sum("talk", t.Name)+uint64(index)))
	v := &voice{player: p, talk: t, rng: rng}
	v.session = session{o: o, rng: rng}
	if t.Name != "" {
		v.session.id = fmt.Sprintf("replay-%016x%016x", rng.Uint64(), rng.Uint64())
	}
	shared := rand.New(rand.NewPCG(p.o.Seed, sum("group", t.Group)))
	v.session.system = words(shared, int(float64(t.Shared)*p.charsPerToken()))
	return v
}

func sum(parts ...string) uint64 {
	h := fnv.New64a()
	for _, part := range parts {
		_, _ = h.Write([]byte(part + "\x00"))
	}
	return h.Sum64()
}

// compose is the prompt of step n.
func (v *voice) compose(step Step, n int) *session {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.latest = n
	chars := v.chars
	if chars == 0 {
		chars = v.player.charsPerToken()
	}
	if v.tokens == 0 {
		v.tokens = int(float64(len(v.session.system)) / chars)
	}
	if step.Prompt <= v.tokens {
		v.shorten(min(step.Cached, step.Prompt), chars)
	}
	missing := max(step.Prompt-v.tokens, 1)
	v.tokens += missing
	v.say(words(v.rng, int(float64(missing)*chars)))
	prompt := v.session
	prompt.history = slices.Clone(v.session.history)
	options := *v.session.o
	options.API, options.Shape.MaxOutput = step.API, max(step.Output, 1)
	prompt.o = &options
	return &prompt
}

// say appends to what the user has said. Chat templates may want user and
// assistant in turns.
func (v *voice) say(text string) {
	h := v.session.history
	if n := len(h); n > 0 && h[n-1].Role == "user" {
		h[n-1].Content += text
		return
	}
	v.session.history = append(h, message{"user", text})
}

// shorten keeps the first keep tokens of the history: the client has compacted
// it, or gone back.
func (v *voice) shorten(keep int, chars float64) {
	room := max(int(float64(keep)*chars)-len(v.session.system), 0)
	var kept []message
	for _, m := range v.session.history {
		if len(m.Content) > room {
			if m.Content = m.Content[:room]; room > 0 {
				kept = append(kept, m)
			}
			break
		}
		kept = append(kept, m)
		room -= len(m.Content)
	}
	v.session.history = kept
	v.tokens = int(float64(v.session.length()) / chars)
}

// answered takes the answer of step n into the history, unless that has moved
// on.
func (v *voice) answered(n int, prompt *session, t Turn) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.session.replica = t.Replica
	if t.Err != nil || n != v.latest {
		return
	}
	v.session.history = append(v.session.history, message{"assistant", t.text})
	if t.PromptTokens > 0 {
		v.tokens = t.PromptTokens + t.OutputTokens
		v.chars = float64(prompt.length()) / float64(t.PromptTokens)
	}
}

// length is the text of a prompt in bytes.
func (s *session) length() int {
	n := len(s.system)
	for _, m := range s.history {
		n += len(m.Content)
	}
	return n
}
