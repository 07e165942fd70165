package router

import (
	"bytes"
	"net/http"

	"github.com/lm-warden/warden/router/deployment"
	"github.com/lm-warden/warden/router/dialect"
	"github.com/lm-warden/warden/router/identity/scan"
	"github.com/lm-warden/warden/router/mends"
)

// mendsUsage decides whether the token counts of an answer are mended.
func (x *exchange) mendsUsage(stream bool) bool {
	model := x.turn.Model()
	return x.api == dialect.Messages && !model.ExactUsage && !(stream && model.ExactStreams)
}

// mend decides on the few changes to the body that an engine needs. Everything
// else in it stays as it came.
func (x *exchange) mend(d *deployment.Deployment, model *Model, rename bool) (scan.Edit, *refusal) {
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
func (x *exchange) systemTurns(d *deployment.Deployment, policy mends.SystemTurns) (fold bool, refused *refusal) {
	if x.scan.SystemTurns == 0 || !x.api.Anthropic() {
		return false, nil
	}
	switch policy.For(x.who.Client) {
	case mends.Reject:
		if x.api == dialect.Messages && d.AskToFold(x.who.Key) {
			return false, forbid(http.StatusBadRequest, mends.FoldRefusal)
		}
		return d.MayFold(), nil
	case mends.Fold:
		return d.MayFold(), nil
	}
	return false, nil
}

// unfold sends the request once more without rewritten system turns.
func (x *exchange) unfold(p *deployment.Place) (again bool) {
	x.turn.Unfolded()
	x.edit.FoldSystemTurns = false
	x.parts = x.scan.Edited(x.payload.Bytes, x.edit)
	return x.attempt(p)
}
