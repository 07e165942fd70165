//go:build cgo

package gpu

import (
	"context"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

const (
	// eventWait is how long one wait for an event may block, and so how late
	// the watch notices its end.
	eventWait = 500 * time.Millisecond
	// eventPause separates waits that fail at once: with one lost GPU in the
	// set, every wait does.
	eventPause = time.Second
)

// watcher registers for XIDs on every GPU that offers them. Consumer cards may
// refuse; then the figures of Sample are all there is.
func (n *nvmlDriver) watcher() func(context.Context, func(XID)) {
	if !n.has("nvmlEventSetWait_v2", "nvmlEventSetWait") {
		return nil
	}
	set, code := read(n, n.lib.EventSetCreate, "nvmlEventSetCreate")
	if code != 0 {
		return nil
	}
	uuids := map[nvml.Device]string{}
	for _, h := range n.handles {
		if n.register(h, set) {
			uuids[h.Device] = h.uuid
		}
	}
	if len(uuids) == 0 {
		return nil
	}
	return func(ctx context.Context, report func(XID)) { watchXIDs(ctx, set, uuids, report) }
}

func (n *nvmlDriver) register(h handle, set nvml.EventSet) bool {
	types, code := read(n, h.GetSupportedEventTypes, "nvmlDeviceGetSupportedEventTypes")
	if code != 0 || types&nvml.EventTypeXidCriticalError == 0 || !n.has("nvmlDeviceRegisterEvents") {
		return false
	}
	return h.RegisterEvents(nvml.EventTypeXidCriticalError, set) == nvml.SUCCESS
}

func watchXIDs(ctx context.Context, set nvml.EventSet, uuids map[nvml.Device]string, report func(XID)) {
	for ctx.Err() == nil {
		event, ret := set.Wait(uint32(eventWait.Milliseconds()))
		switch int(ret) {
		case 0:
			if event.EventType&nvml.EventTypeXidCriticalError != 0 {
				report(XID{UUID: uuids[event.Device], Code: int(event.EventData), At: time.Now()})
			}
		case codeTimeout:
		default:
			select {
			case <-ctx.Done():
			case <-time.After(eventPause):
			}
		}
	}
}
