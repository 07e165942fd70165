package placement

import "testing"

// A prompt that the engine refused left nothing in its cache: the conversation
// weighs what it did before, and others do not wait for it to leave.
func TestRefusedPromptsTakeNoRoom(t *testing.T) {
	r := admissionRig(t, 1, 1)
	small := Turn{Key: key(1), PromptTokens: 1000, Root: 1}
	r.turn(small)
	before := r.session(key(1)).Tokens

	const tooLong = 2_000_000
	refused := Outcome{CachedTokens: -1, Failed: true}
	for _, k := range []Key{key(1), key(2)} {
		d := r.place(Turn{Key: k, PromptTokens: tooLong, Root: 1})
		if got, most := r.session(k).Tokens, fleet(1)[0].KVCapacityTokens; got > most {
			t.Errorf("a prompt counts %d tokens while it is held; %d are the whole KV cache", got, most)
		}
		r.finish(d.TurnID, refused)
	}
	if got := r.session(key(1)).Tokens; got != before {
		t.Errorf("a conversation of %d tokens weighs %d after a prompt that was refused", before, got)
	}
	if got := r.session(key(2)).Tokens; got != 0 {
		t.Errorf("a conversation that was only refused weighs %d tokens", got)
	}
	if d := r.place(big(3)); d.Reason != ReasonNew {
		t.Errorf("after refused prompts a conversation that fits is placed for reason %q", d.Reason)
	}
}

// One that fails while another turn of it runs still weighs what that one needs.
func TestRefusedBesideAnother(t *testing.T) {
	r := admissionRig(t, 1, 1)
	long := r.place(Turn{Key: key(1), PromptTokens: 9000, Root: 1})
	short := r.place(Turn{Key: key(1), PromptTokens: 1000, Root: 1})
	r.finish(short.TurnID, Outcome{CachedTokens: -1, Failed: true})
	if got := r.session(key(1)).Tokens; got < 9000 {
		t.Errorf("%d tokens while a turn of 9000 runs", got)
	}
	r.finish(long.TurnID, Outcome{CachedTokens: -1, Failed: true})
	if got := r.session(key(1)).Tokens; got != 0 {
		t.Errorf("%d tokens after both failed", got)
	}
}
