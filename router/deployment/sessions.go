package deployment

import (
	"encoding/hex"
	"fmt"
	"time"

	"github.com/lm-warden/warden/router/identity"
	"github.com/lm-warden/warden/router/placement"
)

// SavedSession is one conversation as a file keeps it while warden restarts.
// It holds hashes, never what a client sent.
type SavedSession struct {
	Key        string    `json:"key"` // 32 hex digits
	Parent     string    `json:"parent,omitempty"`
	Client     string    `json:"client,omitempty"`
	Root       uint64    `json:"root,omitempty"` // hash of system prompt and tools
	Home       string    `json:"home"`
	Generation uint64    `json:"generation"` // process start of Home
	Tokens     int       `json:"tokens"`
	Turns      int       `json:"turns"`
	LastSeen   time.Time `json:"last_seen"`
}

// SaveSessions copies the conversations that have a home.
func (d *Deployment) SaveSessions() []SavedSession {
	d.mu.Lock()
	defer d.unlock()
	placed := d.placer.Saved()
	saved := make([]SavedSession, 0, len(placed))
	for _, s := range placed {
		one := SavedSession{
			Key: identity.Key(s.Key).String(), Parent: identity.Key(s.Parent).String(), Root: s.Root,
			Home: string(s.Home), Generation: s.Generation, Tokens: s.Tokens, Turns: s.Turns, LastSeen: s.LastSeen,
		}
		if talk, ok := d.talks.Peek(identity.Key(s.Key)); ok {
			one.Client = talk.client
		}
		saved = append(saved, one)
	}
	return saved
}

// RestoreSessions brings back what SaveSessions returned in an earlier process.
// A conversation gets its home back when that replica runs in the same
// generation, now or when SetReplicas tells so. Conversations recognised by
// their content only are known again from their next turn on. What cannot be
// read is left out and told as an error; the rest counts.
func (d *Deployment) RestoreSessions(saved []SavedSession) error {
	var bad error
	var placed []placement.Saved
	d.mu.Lock()
	defer d.unlock()
	for _, s := range saved {
		key, err := parseKey(s.Key)
		parent, parentErr := parseKey(s.Parent)
		if err != nil || parentErr != nil || key.IsZero() || s.Tokens < 0 || s.Turns < 0 {
			bad = fmt.Errorf("a saved session of %s is damaged and was left out", d.Alias)
			continue
		}
		placed = append(placed, placement.Saved{
			Key: placement.Key(key), Parent: placement.Key(parent), Root: s.Root, Home: ReplicaID(s.Home),
			Generation: s.Generation, Tokens: s.Tokens, Turns: s.Turns, LastSeen: s.LastSeen,
		})
		if _, known := d.talks.Peek(key); !known {
			d.talks.Put(key, &conversation{
				key: key, parent: parent, client: s.Client, home: ReplicaID(s.Home), generation: s.Generation,
				turns: s.Turns, lastPrompt: -1, lastCached: -1,
			})
		}
	}
	d.step(placement.Restore{Sessions: placed})
	return bad
}

// parseKey reads what identity.Key.String wrote; "" is the zero Key.
func parseKey(text string) (key identity.Key, err error) {
	if text == "" {
		return key, nil
	}
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != len(key) {
		return key, fmt.Errorf("%q is not a session key", text)
	}
	copy(key[:], raw)
	return key, nil
}
