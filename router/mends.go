package router

import (
	"bytes"
	"net/http"

	"github.com/lm-warden/warden/router/dialect"
	"github.com/lm-warden/warden/router/identity"
	"github.com/lm-warden/warden/router/identity/scan"
	"github.com/lm-warden/warden/router/mends"
)

// mendsUsage decides whether the token counts of an answer are mended.
func (x *exchange) mendsUsage(stream bool) bool {
	model := x.turn.d.modelNow()
	return x.api == dialect.Messages && !model.ExactUsage && !(stream && model.ExactStreams)
}

// mend decides on the few changes to the body that an engine needs. Everything
// else in it stays as it came.
func (x *exchange) mend(d *deployment, model *Model, rename bool) (scan.Edit, *refusal) {
	var edit scan.Edit
	if rename {
		edit.Model = model.Alias
	}
	// continuous_usage_stats starts to work with include_usage: the client
	// would get usage on every chunk.
	edit.IncludeUsage = x.api.UsageOnDemand() && x.scan.Stream && !x.scan.IncludeUsage && !model.ExactStreams &&
		!bytes.Contains(x.payload.Bytes, []byte("continuous_usage_stats"))
	var refused *refusal
	edit.FoldSystemTurns, refused = x.systemTurns(d, model.SystemTurns)
	return edit, refused
}

// systemTurns decides whether to rewrite the system messages inside a history,
// or to refuse the request because of them.
func (x *exchange) systemTurns(d *deployment, policy mends.SystemTurns) (fold bool, refused *refusal) {
	if x.scan.SystemTurns == 0 || !x.api.Anthropic() {
		return false, nil
	}
	switch policy.For(x.who.Client) {
	case mends.Reject:
		if x.api == dialect.Messages && d.askToFold(x.who.Key) {
			return false, forbid(http.StatusBadRequest, mends.FoldRefusal)
		}
		return d.mayFold(), nil
	case mends.Fold:
		return d.mayFold(), nil
	}
	return false, nil
}

// askToFold reports whether a conversation has not been asked before; without
// a key nobody could remember that it was.
func (d *deployment) askToFold(key identity.Key) bool {
	if key.IsZero() {
		return false
	}
	d.mu.Lock()
	defer d.unlock()
	if _, asked := d.asked.Get(key); asked {
		return false
	}
	d.asked.Put(key, struct{}{})
	return true
}

func (d *deployment) mayFold() bool {
	d.mu.Lock()
	defer d.unlock()
	return !d.alternating
}

// unfold sends the request once more without rewritten system turns: the
// model's chat template (Gemma's, Mistral's) refuses two user messages in a
// row, and will for every conversation.
func (x *exchange) unfold(p *place) (again bool) {
	d := x.turn.d
	d.mu.Lock()
	if !d.alternating {
		d.alternating = true
		d.tell("system_turns", "", "the chat template wants user and assistant in turns: system messages inside a conversation are passed on, not rewritten", nil)
	}
	x.turn.folded = false
	d.unlock()
	x.edit.FoldSystemTurns = false
	x.parts = x.scan.Edited(x.payload.Bytes, x.edit)
	return x.attempt(p)
}
