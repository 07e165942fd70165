package supervisor

// ReplicaID names one replica: r0, r1, ... It is stable over restarts of its engine and of warden.
type ReplicaID string

// Spec says what one replica is: which model, on which devices, reached where. It never changes while it runs.
type Spec struct {
	ID          ReplicaID
	Model       string   // alias, the name that people use
	Repo        string   // what the engine loads: a Hugging Face repository or a directory
	ServedNames []string // names the engine answers to; the first is checked after start. Empty = Model
	TP          int      // devices per replica; 0 = 1
	Device      string   // DeviceCUDA, DeviceCPU or DeviceSimulated
	GPUUUIDs    []string // identity of the devices: locks and quarantine go by it
	GPUIndices  []int    // positions in PCI bus order, for the screen
	Env         []string // pinning and the user's additions, KEY=VALUE
	CPUs        []int    // cores the engine may use; nil = all
	Address     string   // where the engine listens: "unix:/path" or "http://host:port"
	Args        []string // the user's engine arguments, passed last and unchanged
	MaxNumSeqs  int      // 0 = the engine's default
	Engine      Engine
}

// Devices an engine can run on.
const (
	DeviceCUDA      = "cuda"
	DeviceCPU       = "cpu"
	DeviceSimulated = "simulated" // replicas of one model start in parallel: there is no cache to fill first
)
