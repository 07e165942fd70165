// Package mends holds the choices that a user has about what warden mends in
// requests on their way.
package mends

import (
	"fmt"

	"github.com/lm-warden/warden/router/identity"
)

// SystemTurns says what becomes of system messages inside a history of
// /v1/messages. Claude Code sends them since 2.1.154; engines move such text
// to the beginning of the prompt, so that each new one makes them read the
// whole history anew.
type SystemTurns string

const (
	// SystemTurnsAuto, the default, folds what Claude Code sends and passes on what
	// others send, for whom a system message may weigh more than a user's.
	SystemTurnsAuto SystemTurns = "auto"
	// SystemTurnsFold makes them user messages in a reminder tag, in which
	// Claude Code itself puts them for endpoints that refuse system messages.
	SystemTurnsFold SystemTurns = "fold"
	// SystemTurnsRejectOnce refuses the first such request of a conversation
	// of Claude Code in words that make it fold them itself from then on, for
	// one more round trip per process. What comes nevertheless is rewritten;
	// other clients' are passed on.
	SystemTurnsRejectOnce SystemTurns = "reject_once"
	// SystemTurnsKeep changes nothing.
	SystemTurnsKeep SystemTurns = "keep"
)

// Check refuses values that are none of the above.
func (s SystemTurns) Check() error {
	switch s {
	case "", SystemTurnsAuto, SystemTurnsFold, SystemTurnsRejectOnce, SystemTurnsKeep:
		return nil
	}
	return fmt.Errorf("system turns: %q is none of auto, fold, reject_once, keep", s)
}

// Act is what to do with one request's system turns.
type Act uint8

const (
	// Pass them on as they are.
	Pass Act = iota
	// Fold them into user messages.
	Fold
	// Reject the request, once per conversation; afterwards as Fold.
	Reject
)

// For is what to do for a client, by its name in identity.Identity.
func (s SystemTurns) For(client string) Act {
	claude := client == identity.ClaudeCode
	switch {
	case s == SystemTurnsFold, claude && (s == SystemTurnsAuto || s == ""):
		return Fold
	case claude && s == SystemTurnsRejectOnce:
		return Reject
	}
	return Pass
}

// FoldRefusal is the wording of a refusal that makes Claude Code fold its
// system turns itself (measured with 2.1.197 and 2.1.332); vLLM's own refusal
// of them does not.
const FoldRefusal = "messages.1.role: Input should be user or assistant; role system is not supported"
