package router

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"strings"
)

// Authenticator decides who may use the API.
type Authenticator interface {
	// Authenticate takes the credential that a client sent, "" when none,
	// and returns a short name of the key that is safe to log.
	Authenticate(credential string) (keyID string, ok bool)
}

// Keys accepts a fixed set of API keys, of which it knows only the hashes.
type Keys struct{ hashes [][sha256.Size]byte }

// NewKeys makes Keys from SHA-256 sums. A fast hash is right here: API keys
// are random, so there is nothing to guess.
func NewKeys(sums ...[sha256.Size]byte) *Keys { return &Keys{sums} }

// HashKey is the sum to give to NewKeys.
func HashKey(key string) [sha256.Size]byte { return sha256.Sum256([]byte(key)) }

// Authenticate compares with every key, so that neither the position nor the
// first differing byte can be learned from the time it takes.
func (k *Keys) Authenticate(credential string) (keyID string, ok bool) {
	sum := HashKey(credential)
	found := 0
	for i := range k.hashes {
		found |= subtle.ConstantTimeCompare(sum[:], k.hashes[i][:])
	}
	if found == 0 || credential == "" {
		return "", false
	}
	return hex.EncodeToString(sum[:4]), true
}

var _ Authenticator = (*Keys)(nil)

// credential is what a client identifies itself with: OpenAI's clients send a
// Bearer token, Anthropic's either that or x-api-key.
func credential(h http.Header) string {
	scheme, token, found := strings.Cut(h.Get("Authorization"), " ")
	if found && strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(token)
	}
	return h.Get("X-Api-Key")
}

// authenticate sets x.keyID, or says why the request is refused.
func (x *exchange) authenticate() *refusal {
	if x.router.opts.Auth == nil {
		return nil
	}
	id, ok := x.router.opts.Auth.Authenticate(credential(x.req.Header))
	if !ok {
		r := forbid(http.StatusUnauthorized,
			"missing or unknown API key; send it as \"Authorization: Bearer KEY\" or \"x-api-key: KEY\"")
		r.Code = "invalid_api_key"
		return r
	}
	x.keyID = id
	return nil
}
