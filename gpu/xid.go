package gpu

import (
	"fmt"
	"time"
)

// XID is a fault that the driver reported for one GPU.
type XID struct {
	UUID string `json:"uuid"`
	Code int    `json:"code"`
	// Fatal: the GPU itself is suspect, set it aside. Otherwise a program on it
	// failed, and the GPU is as good as before.
	Fatal bool      `json:"fatal"`
	At    time.Time `json:"at"`
}

// applicationXIDs are faults of the program on the GPU (a bad address, a
// preempted or reset channel), the list that NVIDIA's own device plugin skips.
var applicationXIDs = map[int]bool{13: true, 31: true, 43: true, 45: true, 68: true, 109: true}

// NewXID classifies a code.
func NewXID(uuid string, code int, at time.Time) XID {
	return XID{UUID: uuid, Code: code, Fatal: !applicationXIDs[code], At: at}
}

// xidNames are the titles of NVIDIA's XID catalogue, for the codes one meets.
var xidNames = map[int]string{
	13:  "graphics engine exception",
	31:  "GPU memory page fault",
	43:  "GPU stopped processing",
	45:  "preemptive cleanup after earlier errors",
	48:  "double-bit ECC error",
	61:  "internal microcontroller breakpoint",
	62:  "internal microcontroller halt",
	63:  "ECC page retirement or row remap recorded",
	64:  "ECC page retirement or row remap failed",
	68:  "video processor exception",
	74:  "NVLink error",
	79:  "GPU fell off the bus",
	92:  "high rate of single-bit ECC errors",
	94:  "contained memory error",
	95:  "uncontained memory error",
	109: "context switch timeout",
	119: "GSP firmware does not answer",
	120: "GSP firmware error",
}

// String is for event lists: "XID 79 (GPU fell off the bus)".
func (x XID) String() string {
	if name, ok := xidNames[x.Code]; ok {
		return fmt.Sprintf("XID %d (%s)", x.Code, name)
	}
	return fmt.Sprintf("XID %d", x.Code)
}
