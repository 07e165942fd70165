package supervisor

import "time"

// Aside is why a GPU must not be used, by the GPU's UUID. It is kept over restarts of warden, until the machine boots
// anew or somebody orders Retry of the replica on it: nothing else tells that the GPU was reset.
type Aside struct {
	Cause string    `json:"cause"`
	Fix   string    `json:"fix,omitempty"`
	At    time.Time `json:"at"`
	// Gone: the GPU does not answer, or its results cannot be trusted. Its engine is killed at once; otherwise it may
	// first finish what it holds.
	Gone bool `json:"gone,omitempty"`
}
