package supervisor

// State is where a replica is in its life; package machine holds the table of transitions.
type State string

// The twelve states.
const (
	Pending    State = "pending"     // waits for the first replica of its model to fill the caches
	WaitingGPU State = "waiting_gpu" // waits for the GPU's memory to be free and stable
	Starting   State = "starting"    // engine process runs, does not answer yet
	Warming    State = "warming"     // answers /health; the served name and one real request are being checked
	Ready      State = "ready"       // takes requests
	Suspect    State = "suspect"     // answers late or not; keeps what it has, gets nothing new
	Draining   State = "draining"    // finishes what it holds, gets nothing new
	Stopping   State = "stopping"    // its processes are being ended
	Stopped    State = "stopped"     // no process, by order
	Backoff    State = "backoff"     // failed; the next start is scheduled
	Parked     State = "parked"      // failed in a way that another start will not cure; waits for a person
	Stuck      State = "stuck"       // has processes that cannot be killed; its GPU is set aside
)

// Accepting reports whether new requests may be placed on a replica in this state.
func (s State) Accepting() bool { return s == Ready }

// Coming reports whether a replica in this state is on its way to ready without anybody's help.
func (s State) Coming() bool {
	switch s {
	case Pending, WaitingGPU, Starting, Warming, Backoff:
		return true
	}
	return false
}

// Serving reports whether a replica in this state has an engine that may be of use to somebody.
func (s State) Serving() bool { return s == Ready || s == Suspect || s == Draining }
