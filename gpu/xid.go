package gpu

import (
	"time"

	"github.com/lm-warden/warden/gpu/xid"
)

// XID is a fault that the driver reported for one GPU. Package xid says what
// each code means.
type XID struct {
	UUID string    `json:"uuid"`
	Code int       `json:"code"`
	At   time.Time `json:"at"`
}

// Info is what is known of its code.
func (x XID) Info() xid.Info { return xid.Lookup(x.Code) }

// Fix is the next step, with this GPU's name in it; "" where there is none.
func (x XID) Fix() string { return withName(x.Info().Fix, x.UUID) }

// String is for event lists: "XID 79 (GPU fell off the bus)".
func (x XID) String() string { return x.Info().String() }
