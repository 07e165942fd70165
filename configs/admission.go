package configs

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Admission is what moves the policy admission between throughput and the longest
// waits; zero values take the defaults. What each costs is in cmd/ladder/RESULTS.md.
type Admission struct {
	// Overcommit hands out so much more than the KV cache holds, as a share of it;
	// less with a negative one. Default 0.
	Overcommit float64 `mapstructure:"overcommit" min:"-0.5" max:"0.5"`
	// RotateAfter is the wait of the first in the queue after which a conversation
	// gives up its place at the end of a turn. Default 60s.
	RotateAfter time.Duration `mapstructure:"rotate_after"`
	// RotateShare is the share of an engine's time that computing those again may
	// take. Default 0.2.
	RotateShare float64 `mapstructure:"rotate_share" min:"0" max:"1"`
}

// mostOvercommit is what placement takes; beyond it nothing changes any more.
const mostOvercommit = 0.5

func (a Admission) validate() error {
	var errs []error
	if math.IsNaN(a.Overcommit) || math.Abs(a.Overcommit) > mostOvercommit {
		errs = append(errs, fmt.Errorf("admission overcommit %v: must lie between -0.5 and 0.5, 0.1 hands out 10 %% more than the KV cache holds", a.Overcommit))
	}
	if a.RotateAfter < 0 {
		errs = append(errs, fmt.Errorf("admission rotate_after %v: must not be negative, 0 is the default of 60s", a.RotateAfter))
	}
	if !(a.RotateShare >= 0 && a.RotateShare <= 1) {
		errs = append(errs, fmt.Errorf("admission rotate_share %v: must lie between 0 and 1, 0 is the default of 0.2", a.RotateShare))
	}
	return errors.Join(errs...)
}
