package identity

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"
)

// Key names a conversation: the first 128 bits of a SHA-256 over what the
// client sent, within the model and the API key it was sent for. The zero Key
// names none.
type Key [16]byte

// IsZero reports whether k names no conversation.
func (k Key) IsZero() bool { return k == Key{} }

// String is k in full, as 32 hex digits; "" for the zero Key.
func (k Key) String() string {
	if k.IsZero() {
		return ""
	}
	return hex.EncodeToString(k[:])
}

// Short is the form for screens, events and logs, enough to follow one
// conversation among the few that are on a screen: the first 4 hex digits of
// String, "-" for the zero Key.
func (k Key) Short() string {
	if k.IsZero() {
		return "-"
	}
	return hex.EncodeToString(k[:2])
}

// newKey hashes its fields with their lengths, so that no two lists of fields
// run together to the same bytes.
func newKey(fields ...string) (k Key) {
	h := sha256.New()
	var size [8]byte
	for _, f := range fields {
		binary.LittleEndian.PutUint64(size[:], uint64(len(f)))
		h.Write(size[:])
		h.Write([]byte(f))
	}
	copy(k[:], h.Sum(nil))
	return k
}

// scope is what all keys of a request lie within.
type scope struct{ model, apiKey string }

func (s scope) key(ns, value, lane string) Key {
	return newKey("conversation", s.model, s.apiKey, ns, value, lane)
}

// sum is the scope as a number, for content hashes.
func (s scope) sum() uint64 {
	k := newKey("scope", s.model, s.apiKey)
	return binary.LittleEndian.Uint64(k[:])
}

// PinKey names a piece of state that an engine keeps (a stored response or
// conversation) for the client with that API key id; "" where API keys are
// not configured.
func PinKey(apiKeyID, id string) Key { return newKey("pin", apiKeyID, id) }

// usable trims an id and reports whether it can name a conversation. Clients
// send the words below, or a template that nobody filled in, when they have no
// id; one conversation of all such requests would pin them to one replica.
func usable(value string) (string, bool) {
	value = strings.TrimSpace(value)
	switch strings.ToLower(value) {
	case "", "null", "undefined", "none", "unknown", "default":
		return "", false
	}
	if strings.HasPrefix(value, "{{") {
		return "", false
	}
	for i := range len(value) {
		if value[i] < 0x20 || value[i] == 0x7f {
			return "", false
		}
	}
	return value, true
}
