package gpu

import (
	"encoding/json"
	"fmt"
)

// The protocol between warden and its NVML child: one JSON value a line. The
// child speaks first (ready, or the error that kept it from starting), then
// answers each request in order, and reports XIDs at any time.

type operation string

const (
	opDetect operation = "detect"
	opSample operation = "sample"
)

// request goes to the child. IDs start at 1.
type request struct {
	ID uint64    `json:"id"`
	Op operation `json:"op"`
}

// message comes from the child. ID is 0 for the greeting and for XIDs.
type message struct {
	ID        uint64     `json:"id,omitempty"`
	Ready     bool       `json:"ready,omitempty"`
	XID       *XID       `json:"xid,omitempty"`
	Inventory *Inventory `json:"inventory,omitempty"`
	Samples   []Sample   `json:"samples,omitempty"`
	Error     *NVMLError `json:"error,omitempty"`
}

// maxLine bounds one message in bytes. A detection of 16 GPUs with 256 CPUs
// each is about 40 KiB.
const maxLine = 1 << 20

// parseMessage reads one line of the child's output.
func parseMessage(line []byte) (message, error) {
	var m message
	if err := json.Unmarshal(line, &m); err != nil {
		return message{}, fmt.Errorf("the NVML child wrote a line that is not a message: %w", err)
	}
	return m, nil
}
