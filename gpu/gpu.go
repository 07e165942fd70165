package gpu

import (
	"context"
	"strconv"
	"strings"
	"time"
)

// Device is one physical GPU as it was at detection.
type Device struct {
	// Index is the position in PCI bus order: what CUDA calls this GPU under
	// CUDA_DEVICE_ORDER=PCI_BUS_ID, and what nvidia-smi shows. It is not an
	// identity: it moves when another GPU is lost. UUID is the identity.
	Index int    `json:"index"`
	UUID  string `json:"uuid"`
	Name  string `json:"name"`
	// PCIBusID is in sysfs form: lower case, domain of at least 4 digits,
	// e.g. 0000:3b:00.0.
	PCIBusID string `json:"pci_bus_id"`

	// Memory, MemoryUsed and MemoryFree are bytes. All are 0 where the driver
	// does not say (GPUs that share the system's memory). Used plus free is
	// less than the total where the driver reserves memory for itself.
	Memory     uint64 `json:"memory"`
	MemoryUsed uint64 `json:"memory_used"`
	MemoryFree uint64 `json:"memory_free"`

	ComputeCap [2]int `json:"compute_cap"` // major, minor; 0,0 unknown
	NUMANode   int    `json:"numa_node"`   // -1 unknown, or a machine with one node
	CPUs       []int  `json:"cpus"`        // of that node and allowed to us; nil unknown

	MIG         bool      `json:"mig"`          // partitioned: cannot be pinned by index
	ComputeMode string    `json:"compute_mode"` // one of the ComputeMode constants; "" unknown
	Processes   []Process `json:"processes"`    // sorted by PID; decoration, never a gate
	Health      Health    `json:"health"`
}

// Health is what a GPU says of its own condition at detection. A nil pointer
// means that this GPU or driver does not say.
type Health struct {
	ECCUncorrected *uint64  `json:"ecc_uncorrected,omitempty"` // memory errors that could not be corrected, since the driver was loaded
	RemapPending   bool     `json:"remap_pending,omitempty"`   // a memory row or page is replaced at the next reset
	RemapFailed    bool     `json:"remap_failed,omitempty"`    // there was no spare row left
	PowerLimit     *float64 `json:"power_limit_watts,omitempty"`
	PowerDefault   *float64 `json:"power_default_watts,omitempty"`
	Recovery       Recovery `json:"recovery,omitempty"`
}

// The compute modes of a GPU (nvidia-smi -c).
const (
	ComputeModeDefault          = "DEFAULT"
	ComputeModeExclusiveThread  = "EXCLUSIVE_THREAD" // drivers since CUDA 8 no longer set it
	ComputeModeProhibited       = "PROHIBITED"
	ComputeModeExclusiveProcess = "EXCLUSIVE_PROCESS"
)

// ShortName is the product name without the maker: "RTX A4000".
func (d Device) ShortName() string { return strings.TrimPrefix(d.Name, "NVIDIA ") }

// String names the device for messages: "GPU 2 (RTX A4000)".
func (d Device) String() string {
	return "GPU " + strconv.Itoa(d.Index) + " (" + d.ShortName() + ")"
}

// FreeRatio is the share (0-1) of the memory applications can get that is free
// now. known is false when the driver does not report memory.
func (d Device) FreeRatio() (ratio float64, known bool) {
	usable := d.MemoryUsed + d.MemoryFree
	if usable == 0 {
		return 0, false
	}
	return float64(d.MemoryFree) / float64(usable), true
}

// Process is a process that holds memory on a GPU. Inside a container the PID
// may be the host's; Name and User are then empty or another process's.
type Process struct {
	PID    int    `json:"pid"`
	Name   string `json:"name"`
	User   string `json:"user"`
	Memory uint64 `json:"memory"` // bytes; 0 unknown
}

// String names the process: "pid 998 (python, user ana)".
func (p Process) String() string {
	text := "pid " + strconv.Itoa(p.PID)
	switch {
	case p.Name != "" && p.User != "":
		return text + " (" + p.Name + ", user " + p.User + ")"
	case p.Name != "":
		return text + " (" + p.Name + ")"
	}
	return text
}

// Inventory is one look at all GPUs.
type Inventory struct {
	Driver  string   `json:"driver"` // e.g. 580.95.05
	CUDA    string   `json:"cuda"`   // newest CUDA the driver serves, e.g. 13.0; "" unknown
	Devices []Device `json:"devices"`
	Links   []Link   `json:"links"` // one per pair of devices
	Lost    []Lost   `json:"lost"`  // GPUs that NVML counts but cannot open
}

// Lost is a GPU that is in the machine but does not answer. CUDA does not
// count it either, so it has no index.
type Lost struct {
	NVMLIndex int    `json:"nvml_index"`
	Code      int    `json:"code"` // NVML's return code
	Err       string `json:"err"`
	Fix       string `json:"fix"`
}

// Find returns the device with that UUID. Use it to get the index that is
// right now, before each start of an engine.
func (inv Inventory) Find(uuid string) (Device, bool) {
	for _, d := range inv.Devices {
		if d.UUID == uuid {
			return d, true
		}
	}
	return Device{}, false
}

// Sample is one GPU at one moment. A nil pointer means that this GPU or driver
// does not measure it, which is not the same as zero.
type Sample struct {
	UUID  string    `json:"uuid"`  // "" = a GPU that could not be opened: its name is not known
	Index int       `json:"index"` // -1 then
	At    time.Time `json:"at"`

	MemoryUsed  uint64 `json:"memory_used"` // bytes; all three 0 when unknown
	MemoryFree  uint64 `json:"memory_free"`
	MemoryTotal uint64 `json:"memory_total"`

	Utilization  *float64 `json:"utilization,omitempty"` // ratio 0-1 of time with a kernel running
	PowerWatts   *float64 `json:"power_watts,omitempty"`
	TemperatureC *float64 `json:"temperature_c,omitempty"`
	Throttled    []string `json:"throttled,omitempty"` // thermal and brake causes only

	// Err says why this GPU could not be read, and Fix what to do; Code is NVML's
	// (CodeGPULost: the GPU is gone until a reboot). Other GPUs' samples are still
	// good.
	Err  string `json:"err,omitempty"`
	Fix  string `json:"fix,omitempty"`
	Code int    `json:"code,omitempty"`

	Recovery Recovery `json:"recovery,omitempty"` // what the driver asks for
}

// Source looks at the GPUs. Child is the real one, Fake the simulated one.
type Source interface {
	Detect(context.Context) (Inventory, error)
	Sample(context.Context) ([]Sample, error)
	Close() error
}

var (
	_ Source = (*Child)(nil)
	_ Source = (*Fake)(nil)
)
