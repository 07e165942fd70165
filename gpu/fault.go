package gpu

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/lm-warden/warden/gpu/xid"
)

// Fault is why one GPU must be set aside, and what makes it usable again.
type Fault struct {
	What string
	Fix  string
	// Gone: the GPU does not answer, or what it computes cannot be trusted. What
	// it still holds is not worth waiting for.
	Gone bool
}

// Recovery is what the driver itself asks for (nvidia-smi -q, "GPU Recovery
// Action"). Drivers before 565 do not say.
type Recovery string

// The recovery actions that NVML knows.
const (
	RecoveryNone       Recovery = ""
	RecoveryReset      Recovery = "reset"
	RecoveryReboot     Recovery = "reboot"
	RecoveryDrainP2P   Recovery = "drain_p2p"
	RecoveryDrainReset Recovery = "drain_and_reset"
	RecoveryIMEX       Recovery = "recover_imex"
	RecoveryBusReset   Recovery = "bus_reset"
)

// recoveryFaults are the actions without which a GPU cannot go on. Draining
// P2P and recovering a domain concern traffic between machines.
var recoveryFaults = map[Recovery]Fault{
	RecoveryReset:      {What: "the driver asks for a reset of this GPU", Fix: "stop what uses it, then `sudo nvidia-smi --gpu-reset -i INDEX`, or reboot"},
	RecoveryDrainReset: {What: "the driver asks to empty and reset this GPU", Fix: "stop what uses it, then `sudo nvidia-smi --gpu-reset -i INDEX`, or reboot"},
	RecoveryBusReset:   {What: "the driver asks for a reset of this GPU's bus", Fix: "reboot", Gone: true},
	RecoveryReboot:     {What: "the driver asks for a reboot because of this GPU", Fix: "reboot", Gone: true},
}

func (r Recovery) fault(uuid string) (Fault, bool) {
	f, ok := recoveryFaults[r]
	f.Fix = withName(f.Fix, uuid)
	return f, ok
}

// withName puts a GPU's UUID where a fix says INDEX: nvidia-smi takes both, and
// an index moves when another GPU is lost.
func withName(fix, uuid string) string { return strings.ReplaceAll(fix, "INDEX", uuid) }

// Fault says whether an XID sets its GPU aside.
func (x XID) Fault() (Fault, bool) {
	switch x.Info().Action {
	case xid.Drain:
		return Fault{What: x.String(), Fix: x.Fix()}, true
	case xid.Stop:
		return Fault{What: x.String(), Fix: x.Fix(), Gone: true}, true
	}
	return Fault{}, false
}

// Fault says whether this GPU must be set aside: it is lost, or needs a reset.
// Every other error of a sample costs its figures and nothing else.
func (s Sample) Fault() (Fault, bool) {
	switch s.Code {
	case CodeGPULost, CodeResetRequired:
		return Fault{What: s.Err, Fix: s.Fix, Gone: true}, true
	}
	return s.Recovery.fault(s.UUID)
}

// Fault says whether a GPU was unusable when it was detected.
func (d Device) Fault() (Fault, bool) {
	if d.Health.RemapFailed {
		return Fault{What: "a memory row of this GPU is broken and could not be replaced",
			Fix: withName("`nvidia-smi -q -d ROW_REMAPPER -i INDEX`, then have the card replaced", d.UUID)}, true
	}
	return d.Health.Recovery.fault(d.UUID)
}

// failed marks a sample as one that could not be taken.
func (s *Sample) failed(code int, call string) {
	e := nvmlError(code, call, "")
	s.Code, s.Err, s.Fix = code, e.Error(), withName(e.Fix, s.UUID)
}

// WithMissing gives names to the GPUs that could not be opened: once the
// driver's library was loaded anew, a lost GPU has no UUID any more, but it is
// one of the devices of which there is no sample. A device that the driver does
// not even count is lost, too.
func WithMissing(samples []Sample, devices []Device, now time.Time) []Sample {
	var known, nameless []Sample
	for _, s := range samples {
		if s.UUID == "" {
			nameless = append(nameless, s)
		} else {
			known = append(known, s)
		}
	}
	code := CodeGPULost
	if len(nameless) > 0 {
		code = nameless[0].Code
	}
	if slices.ContainsFunc(nameless, func(s Sample) bool { return s.Code != code }) {
		code = CodeUnknown // which is which cannot be told, and the wrong one must not be set aside
	}
	for _, d := range devices {
		if !slices.ContainsFunc(known, func(s Sample) bool { return s.UUID == d.UUID }) {
			s := Sample{UUID: d.UUID, Index: d.Index, At: now}
			s.failed(code, "")
			known = append(known, s)
		}
	}
	return known
}

// AllLost is what WithMissing makes of a look that failed because no GPU is
// left, nil for every other error.
func AllLost(err error, devices []Device, now time.Time) []Sample {
	if e, ok := errors.AsType[*NVMLError](err); ok && e.Code == CodeGPULost {
		return WithMissing(nil, devices, now)
	}
	return nil
}

// startsFail are the codes of a driver under which every program fails to
// start on any GPU, while those that run may go on.
var startsFail = []int{CodeNoPermission, CodeDriverNotLoaded, CodeLibraryNotFound, codeBlocked, CodeDriverMismatch, codeNotReady, CodeUnknown}

// StartsFail says whether an error of a whole look at the GPUs means that no
// engine can start now. A driver that gives no answer is no such error: nothing
// is known then, and an engine may well start.
func StartsFail(err error) bool {
	e, ok := errors.AsType[*NVMLError](err)
	return ok && slices.Contains(startsFail, e.Code)
}
