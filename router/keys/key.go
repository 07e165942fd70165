package keys

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
)

// Scope is a set of things that a key may do.
type Scope uint8

const (
	Infer   Scope = 1 << iota // ask an engine
	Read                      // look at the metrics
	theRest                   // what there may be one day
	Admin   = Infer | Read | theRest
)

// scopeNames are in the order they are written in.
var scopeNames = []struct {
	scope Scope
	name  string
}{{Admin, "admin"}, {Infer, "infer"}, {Read, "read"}}

// ParseScope reads names with commas between them.
func ParseScope(text string) (Scope, error) {
	var out Scope
names:
	for name := range strings.SplitSeq(text, ",") {
		for _, s := range scopeNames {
			if s.name == name {
				out |= s.scope
				continue names
			}
		}
		return 0, fmt.Errorf("scope %q is none of infer, read, admin", name)
	}
	return out, nil
}

func (s Scope) String() string {
	var names []string
	for _, n := range scopeNames {
		if s&n.scope == n.scope {
			names = append(names, n.name)
			s &^= n.scope
		}
	}
	return strings.Join(names, ",")
}

// Allows says whether a holder of s may do something that any scope of need
// is enough for.
func (s Scope) Allows(need Scope) bool { return s&need != 0 }

// Hash is the SHA-256 of a key.
type Hash [sha256.Size]byte

// HashOf is the hash of a key as a client sends it.
func HashOf(key string) Hash { return sha256.Sum256([]byte(key)) }

// ID is short, and safe to log: it gives 32 of the hash's 256 bits away.
func (h Hash) ID() string { return hex.EncodeToString(h[:4]) }

// Key is what warden knows of one API key.
type Key struct {
	Hash  Hash
	Name  string // whose key it is, "" when the file does not say
	Scope Scope
	// MaxInFlight bounds its requests at one time, waiting ones included;
	// 0: no bound.
	MaxInFlight int
	// Plain says that the file holds the key itself and not only its hash.
	Plain bool
}

// String names the key without giving it away.
func (k Key) String() string {
	if k.Name != "" {
		return k.Name
	}
	return k.Hash.ID()
}

// prefix marks what is a key of warden's, for people and for programs that
// search files for secrets.
const prefix = "wk-"

// New makes a key of 256 random bits.
func New() string {
	var bits [32]byte
	_, _ = rand.Read(bits[:]) // never fails: crypto/rand ends the program first
	return prefix + base64.RawURLEncoding.EncodeToString(bits[:])
}
