package record

import (
	"net/http"
	"strings"
	"time"
)

// Result is how a request ended for its client.
type Result string

const (
	// Complete: the client got the whole answer.
	Complete Result = "complete"
	// Cut: the answer broke off after its first byte.
	Cut Result = "cut"
	// Cancelled: the client left first, or did not read on.
	Cancelled Result = "cancelled"
	// Refused: the client got an error; Cause says why.
	Refused Result = "refused"
)

// CauseEngine is the cause of what the engine itself refused. All other causes
// are warden's: the error's code, or its status in words.
const CauseEngine = "engine"

// CauseOwnLimit is the cause of what warden itself had no means for, such as
// descriptors: no replica is to blame.
const CauseOwnLimit = "own_limit"

// Result is how the request ended.
func (r *Record) Result() Result {
	switch {
	case r.Status >= 400:
		return Refused
	case r.Failed:
		return Cut
	case r.Aborted:
		return Cancelled
	}
	return Complete
}

// CauseOf is the cause of a refusal by warden, as one word: its code, or else
// its status.
func CauseOf(code string, status int) string {
	if code != "" {
		return code
	}
	return strings.ReplaceAll(strings.ToLower(http.StatusText(status)), " ", "_")
}

// Retries is how many attempts failed before the last one.
func (r *Record) Retries() int { return max(r.Attempts-1, 0) }

// Since is the time from the arrival to at; 0 when that never happened.
func (r *Record) Since(at time.Time) time.Duration {
	if at.IsZero() {
		return 0
	}
	return at.Sub(r.Arrived)
}
