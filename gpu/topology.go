package gpu

// Level is how far two GPUs are apart on the PCIe tree: the numbers are NVML's.
type Level int

// The levels, with nvidia-smi's name for each.
const (
	LevelUnknown    Level = -1
	LevelInternal   Level = 0  // two GPUs on one board
	LevelSingle     Level = 10 // PIX: one PCIe switch
	LevelMultiple   Level = 20 // PXB: several switches, no host bridge
	LevelHostBridge Level = 30 // PHB: through one host bridge
	LevelNode       Level = 40 // NODE: several host bridges of one NUMA node
	LevelSystem     Level = 50 // SYS: across NUMA nodes
)

// String is nvidia-smi's abbreviation, "?" when unknown.
func (l Level) String() string {
	switch l {
	case LevelInternal:
		return "INT"
	case LevelSingle:
		return "PIX"
	case LevelMultiple:
		return "PXB"
	case LevelHostBridge:
		return "PHB"
	case LevelNode:
		return "NODE"
	case LevelSystem:
		return "SYS"
	}
	return "?"
}

// Link is the connection of a pair of GPUs, A < B by index.
type Link struct {
	A       int   `json:"a"`
	B       int   `json:"b"`
	Level   Level `json:"level"`
	NVLinks int   `json:"nvlinks"` // active NVLinks between the two, also through an NVSwitch
}

// Between returns the link of two devices by index, in either order. A pair
// that NVML did not report has LevelUnknown.
func (inv Inventory) Between(a, b int) Link {
	if a > b {
		a, b = b, a
	}
	for _, l := range inv.Links {
		if l.A == a && l.B == b {
			return l
		}
	}
	return Link{A: a, B: b, Level: LevelUnknown}
}

// port is one end of an active NVLink, as the driver reports it.
type port struct {
	toSwitch bool   // the other end is an NVSwitch
	busID    string // of the GPU at the other end; unused when toSwitch
}

// nvlinks counts the links that two GPUs share, from the ports of both: the
// direct ones, or, when both hang on NVSwitches, the smaller number of uplinks
// (every GPU reaches every other through the switches).
func nvlinks(aBus string, a []port, bBus string, b []port) int {
	direct, reverse, upA, upB := 0, 0, 0, 0
	for _, p := range a {
		switch {
		case p.toSwitch:
			upA++
		case p.busID == bBus:
			direct++
		}
	}
	for _, p := range b {
		switch {
		case p.toSwitch:
			upB++
		case p.busID == aBus:
			reverse++
		}
	}
	// Either side may refuse to name its far end; believe the one that did.
	return max(direct, reverse, min(upA, upB))
}
