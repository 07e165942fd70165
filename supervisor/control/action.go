package control

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/lm-warden/warden/supervisor/events"
)

// Version is the answer of GET /v1/version. Details holds whatever the daemon knows beyond its own version:
// driver, vllm, go, commit.
type Version struct {
	Version   string            `json:"version"`
	PID       int               `json:"pid"`
	StartedAt time.Time         `json:"started_at"`
	Details   map[string]string `json:"details,omitempty"`
}

// ReplicaAction is something one replica can be told to do.
type ReplicaAction string

const (
	Restart ReplicaAction = "restart" // drain, stop, start
	Drain   ReplicaAction = "drain"   // finish held requests, accept none
	Undrain ReplicaAction = "undrain"
	Kill    ReplicaAction = "kill"  // end its process tree now
	Retry   ReplicaAction = "retry" // leave backoff or parked at once
)

// Accepted answers a ReplicaAction: the work goes on, Generation tells when it is done (a restart raises it).
type Accepted struct {
	Replica    string        `json:"replica"`
	Action     ReplicaAction `json:"action"`
	Generation uint64        `json:"generation"`
}

// Upgraded answers POST /v1/upgrade.
type Upgraded struct {
	PID int `json:"pid"` // of the process that takes over; Version tells when it has
}

// AffinityChange answers a change of a model's placement policy.
type AffinityChange struct {
	Model        string `json:"model"`
	Old          string `json:"old"` // policy before: balance, affinity, admission
	New          string `json:"new"`
	SessionsLive int    `json:"sessions_live"` // they stay known
}

// SpillChange answers a change of a model's spill limit.
type SpillChange struct {
	Model string `json:"model"`
	Old   int    `json:"old"`
	New   int    `json:"new"`
	Auto  bool   `json:"auto"` // New was derived, not given
}

// ShutdownRequest ends the daemon. The zero value drains for as long as the daemon is configured to.
type ShutdownRequest struct {
	Drain Duration `json:"drain,omitzero"` // 0 = the daemon's own default
	Now   bool     `json:"now,omitempty"`  // do not wait for held requests
}

// Duration is a time.Duration that travels as text: "30s".
type Duration time.Duration

// MarshalText writes the form time.ParseDuration reads.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads "30s"; negative durations are refused.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return err
	}
	if v < 0 {
		return fmt.Errorf("duration %s is negative", v)
	}
	*d = Duration(v)
	return nil
}

// LogQuery selects lines of the engines' logs. The zero value means every line kept of every replica's present run.
type LogQuery struct {
	Replicas []string  // empty = all
	Tail     int       // at most this many lines per replica before following; 0 = no limit
	Since    time.Time // zero = no limit
	Follow   bool
	Previous bool // the run before the last restart; never followed
}

// LogLine is one line of an engine's log.
type LogLine struct {
	Replica    string    `json:"replica"`
	At         time.Time `json:"at,omitzero"` // when warden read it
	Generation uint64    `json:"generation,omitempty"`
	Text       string    `json:"text"`
	Dropped    uint64    `json:"dropped,omitempty"` // lines lost before this one because the reader was slow
	Error      *Error    `json:"error,omitempty"`   // the stream ends with this
}

// Message is one line of GET /v1/events. The first holds Status and Recent; then each line holds an Event, or a
// Status: one each second, which is also the heartbeat, and one after each loss.
type Message struct {
	Status  *Status        `json:"status,omitempty"`
	Recent  []events.Event `json:"recent,omitempty"` // what happened before, oldest first
	Event   *events.Event  `json:"event,omitempty"`
	Dropped uint64         `json:"dropped,omitempty"` // events this reader lost so far because it was slow
}

// Config is the daemon's effective configuration, whatever its shape; secrets are left out by the daemon.
type Config = json.RawMessage
