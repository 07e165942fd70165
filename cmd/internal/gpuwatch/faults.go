package gpuwatch

import (
	"log/slog"
	"maps"
	"strconv"
	"sync"
	"time"

	"github.com/lm-warden/warden/gpu"
	"github.com/lm-warden/warden/gpu/xid"
	"github.com/lm-warden/warden/supervisor"
	"github.com/lm-warden/warden/supervisor/events"
)

// faults turns what the driver reports into GPUs that are set aside, events
// and counts. Which fault does what is package gpu's to say.
type faults struct {
	devices  []gpu.Device
	setAside func(uuid string, a supervisor.Aside) (news bool)
	publish  func(events.Event)
	log      *slog.Logger

	mu   sync.Mutex
	xids map[string]map[int]uint64 // by UUID and code
	told map[xidKey]time.Time      // when a fault was told last
}

type xidKey struct {
	uuid string
	code int
}

// xidQuiet bounds how often the same fault of a GPU is told: one bad program
// causes one per channel, which are hundreds.
const xidQuiet = time.Minute

// onXID takes one report of the driver.
func (f *faults) onXID(x gpu.XID) {
	fault, faulty := x.Fault()
	if faulty && f.aside(x.UUID, fault, x.At) {
		f.count(x) // told with the setting aside
		return
	}
	if f.count(x) {
		return
	}
	text := f.name(x.UUID) + ": " + x.String()
	switch x.Info().Action {
	case xid.Ignore:
		text += ", the fault of a program; the GPU goes on"
	case xid.Watch:
		text += "; the GPU goes on"
	}
	if fix := x.Fix(); fix != "" {
		text += ": " + fix
	}
	f.log.Warn("GPU fault", "gpu", f.name(x.UUID), "reason", x.String())
	f.publish(events.Event{Kind: events.KindGPU, Text: text, Fields: map[string]string{
		"uuid": x.UUID, "xid": strconv.Itoa(x.Code), "action": string(x.Info().Action), "fix": x.Fix(),
	}})
}

// count returns whether the fault was told a short while ago.
func (f *faults) count(x gpu.XID) (quiet bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.xids == nil {
		f.xids, f.told = map[string]map[int]uint64{}, map[xidKey]time.Time{}
	}
	if f.xids[x.UUID] == nil {
		f.xids[x.UUID] = map[int]uint64{}
	}
	f.xids[x.UUID][x.Code]++
	key := xidKey{x.UUID, x.Code}
	since := x.At.Sub(f.told[key])
	quiet = since >= 0 && since < xidQuiet // earlier than the last: the clock was set back
	if !quiet {
		f.told[key] = x.At
	}
	return quiet
}

// counted returns the XIDs of a GPU so far, by code.
func (f *faults) counted(uuid string) map[int]uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.xids[uuid])
}

// onSamples sets aside what the driver says is lost, or must be reset.
func (f *faults) onSamples(samples []gpu.Sample) {
	for _, s := range samples {
		if fault, faulty := s.Fault(); faulty {
			f.aside(s.UUID, fault, s.At)
		}
	}
}

// onDevices does the same for what was found before anything started.
func (f *faults) onDevices(now time.Time) {
	for _, d := range f.devices {
		if fault, faulty := d.Fault(); faulty {
			f.aside(d.UUID, fault, now)
		}
	}
}

func (f *faults) aside(uuid string, fault gpu.Fault, at time.Time) (news bool) {
	if !f.setAside(uuid, supervisor.Aside{Cause: fault.What, Fix: fault.Fix, At: at, Gone: fault.Gone}) {
		return false
	}
	f.log.Error("GPU set aside", "gpu", f.name(uuid), "reason", fault.What)
	f.publish(events.Event{Kind: events.KindGPU, Text: f.name(uuid) + " is set aside: " + fault.What + ": " + fault.Fix,
		Fields: map[string]string{"uuid": uuid, "cause": fault.What, "fix": fault.Fix}})
	return true
}

// name is what people call a GPU: "GPU 1 (RTX A4000)".
func (f *faults) name(uuid string) string {
	for _, d := range f.devices {
		if d.UUID == uuid {
			return d.String()
		}
	}
	return "GPU " + uuid
}
