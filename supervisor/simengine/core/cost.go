package core

import "time"

// Cost prices one scheduler step of a machine with one model:
//
//	Base + max(Floor, PerToken × tokens)
//	     + PrefillContext × Σ over prefill chunks (new tokens × mean context)
//	     + DecodeContext × Σ over decodes (context)
//	     + Σ over requests that it admits (Admission + CachedToken × cached tokens)
//
// Floor is the time to read the weights once (a decode step is bound by memory
// bandwidth), PerToken the matrix work of one token (a prefill step is bound by
// compute), the last two are attention. All times are per step of one replica.
type Cost struct {
	Base, Floor time.Duration
	// PerToken, PrefillContext and DecodeContext are in nanoseconds; fractions
	// matter.
	PerToken       float64
	PrefillContext float64
	DecodeContext  float64
	// Admission is what the step that admits a request takes longer for it, and
	// CachedToken, in nanoseconds, for each token of its prompt that the prefix
	// cache had: parsing, the chat template, the tokenizer, block hashes. They are
	// for machines whose frontend has no core of its own, so that its work holds
	// up the engine; 0 where it has, as on the reference machine.
	Admission   time.Duration
	CachedToken float64
	// Frontend is the time between a request's arrival and the scheduler
	// seeing it: HTTP, chat template, tokenizer. The driver waits for it.
	Frontend time.Duration
}

// Load is what one step computes.
type Load struct {
	Tokens         int     // all tokens
	PrefillContext float64 // Σ new × mean context over prefill chunks
	DecodeContext  int     // Σ context over decodes
	Admitted       int     // requests that were waiting before
	Cached         int     // tokens of their prompts that the cache had
}

// Step returns how long a step with this load takes.
func (c Cost) Step(l Load) time.Duration {
	work := max(float64(c.Floor), c.PerToken*float64(l.Tokens))
	attention := c.PrefillContext*l.PrefillContext + c.DecodeContext*float64(l.DecodeContext)
	admission := float64(c.Admission)*float64(l.Admitted) + c.CachedToken*float64(l.Cached)
	return c.Base + time.Duration(work+attention+admission)
}

// Scaled returns the cost of a machine that is factor times as fast.
func (c Cost) Scaled(factor float64) Cost {
	slower := func(d time.Duration) time.Duration { return time.Duration(float64(d) / factor) }
	return Cost{
		Base: slower(c.Base), Floor: slower(c.Floor), Frontend: slower(c.Frontend), Admission: slower(c.Admission),
		CachedToken: c.CachedToken / factor, PerToken: c.PerToken / factor, PrefillContext: c.PrefillContext / factor, DecodeContext: c.DecodeContext / factor,
	}
}
