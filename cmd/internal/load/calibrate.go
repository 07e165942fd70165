package load

import (
	"context"
	"errors"
	"math/rand/v2"
)

// calibrationTokens is about how long the prompt of Calibrate is: long enough
// that the chat template does not matter, short enough to be quick.
const calibrationTokens = 2000

// Calibrate asks for one token behind a text of known length and returns how
// many characters the model's tokenizer takes for a token of it.
func Calibrate(ctx context.Context, o Options) (float64, error) {
	if err := o.setDefaults(); err != nil {
		return 0, err
	}
	defer o.Client.CloseIdleConnections()
	o.Shape = Shape{Turns: 1, MaxOutput: 1}
	s := newSession(&o, rand.New(rand.NewPCG(o.Seed, 0)))
	text := words(s.rng, int(calibrationTokens*o.CharsPerToken))
	s.history = []message{{"user", text}}
	turn := s.ask(ctx, 1)
	if turn.Err != nil {
		return 0, turn.Err
	}
	if turn.PromptTokens == 0 {
		return 0, errors.New("the answer says nothing about the tokens of its prompt")
	}
	return float64(len(text)) / float64(turn.PromptTokens), nil
}
