package deployment

import "github.com/lm-warden/warden/router/identity"

// AskToFold reports whether a conversation has not been asked before; without
// a key nobody could remember that it was.
func (d *Deployment) AskToFold(key identity.Key) bool {
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

// MayFold reports whether system turns may be rewritten: not where the chat
// template has refused that.
func (d *Deployment) MayFold() bool {
	d.mu.Lock()
	defer d.unlock()
	return !d.alternating
}

// Unfolded notes that the chat template (Gemma's, Mistral's) has refused the
// rewritten system turns of t, two user messages in a row, and will for every
// conversation.
func (t *Turn) Unfolded() {
	d := t.d
	d.mu.Lock()
	defer d.unlock()
	if !d.alternating {
		d.alternating = true
		d.tell("system_turns", "", "the chat template wants user and assistant in turns: system messages inside a conversation are passed on, not rewritten", nil)
	}
	t.folded = false
}
