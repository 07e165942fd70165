package placement

import (
	"cmp"
	"time"
)

// Policy names.
const (
	PolicyBalance   = "balance"
	PolicyAffinity  = "affinity"
	PolicyAdmission = "admission"
)

// Policies returns the names of all policies, the stickiest last.
func Policies() []string { return []string{PolicyBalance, PolicyAffinity, PolicyAdmission} }

// DefaultMaxWait is below the 300 s after which agents send a request again.
const DefaultMaxWait = 240 * time.Second

// Config is what a user may set for one model. Zero fields take their
// defaults; an unknown policy is affinity.
type Config struct {
	// Policy is one of the Policy constants. Default affinity.
	Policy string
	// SpillLimit is the number of turns a home may hold before the next one
	// goes elsewhere. 0 is auto: a quarter of the replica's MaxNumSeqs.
	SpillLimit int
	// SessionTTL forgets a conversation idle for so long. Default 60 min.
	SessionTTL time.Duration
	// ActiveWindow is how long an idle conversation still counts as load
	// when a home is chosen. Default 10 min.
	ActiveWindow time.Duration
	// MaxSessions bounds the table; the least recently seen goes first.
	// Default 10,000.
	MaxSessions int
	// MaxQueue bounds the waiting turns. Default 1,024.
	MaxQueue int
	// MaxWait refuses a turn that has waited so long. Default DefaultMaxWait.
	MaxWait time.Duration
	// MaxAttempts bounds on how many replicas one turn is tried. A request
	// that kills its engine must not kill them all. Default 3.
	MaxAttempts int
	// StatsMaxAge is the age at which scraped numbers stop counting.
	// Default 3 s: three scrapes.
	StatsMaxAge time.Duration
	// Seed turns the first tie-break; equal seeds give equal decisions.
	Seed uint64
	// Admission tunes that policy.
	Admission AdmissionConfig
}

func (c Config) withDefaults() Config {
	switch c.Policy {
	case PolicyBalance, PolicyAffinity, PolicyAdmission:
	default:
		c.Policy = PolicyAffinity
	}
	c.SpillLimit = max(c.SpillLimit, 0)
	c.SessionTTL = orDefault(c.SessionTTL, time.Hour)
	c.ActiveWindow = min(orDefault(c.ActiveWindow, 10*time.Minute), c.SessionTTL)
	c.MaxSessions = orDefault(c.MaxSessions, 10_000)
	c.MaxQueue = orDefault(c.MaxQueue, 1_024)
	c.MaxWait = orDefault(c.MaxWait, DefaultMaxWait)
	c.MaxAttempts = orDefault(c.MaxAttempts, 3)
	c.StatsMaxAge = orDefault(c.StatsMaxAge, 3*time.Second)
	c.Admission = c.Admission.withDefaults()
	return c
}

// orDefault is def for values that are zero or, which no setting may be,
// negative.
func orDefault[T cmp.Ordered](v, def T) T {
	var zero T
	if v <= zero {
		return def
	}
	return v
}
