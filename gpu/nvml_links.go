//go:build cgo

package gpu

import (
	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// links reads the PCIe distance and the NVLinks of every pair.
func (n *nvmlDriver) links() []Link {
	ports := make([][]port, len(n.handles))
	for i, h := range n.handles {
		ports[i] = n.ports(h)
	}
	var links []Link
	for a, ha := range n.handles {
		for b := a + 1; b < len(n.handles); b++ {
			hb := n.handles[b]
			links = append(links, Link{A: a, B: b, Level: n.level(ha, hb),
				NVLinks: nvlinks(ha.busID, ports[a], hb.busID, ports[b])})
		}
	}
	return links
}

func (n *nvmlDriver) level(a, b handle) Level {
	level, code := read(n, func() (nvml.GpuTopologyLevel, nvml.Return) {
		return a.GetTopologyCommonAncestor(b.Device)
	}, "nvmlDeviceGetTopologyCommonAncestor")
	if code != 0 {
		return LevelUnknown
	}
	return Level(level)
}

// ports lists the far ends of a GPU's active NVLinks. Cards without NVLink
// answer "not supported" for each link, which leaves the list empty.
func (n *nvmlDriver) ports(h handle) []port {
	var ports []port
	for link := range nvml.NVLINK_MAX_LINKS {
		state, code := read(n, func() (nvml.EnableState, nvml.Return) { return h.GetNvLinkState(link) },
			"nvmlDeviceGetNvLinkState")
		if code != 0 || state != nvml.FEATURE_ENABLED {
			continue
		}
		kind, code := read(n, func() (nvml.IntNvLinkDeviceType, nvml.Return) { return h.GetNvLinkRemoteDeviceType(link) },
			"nvmlDeviceGetNvLinkRemoteDeviceType")
		if code == 0 && kind == nvml.NVLINK_DEVICE_TYPE_SWITCH {
			ports = append(ports, port{toSwitch: true})
			continue
		}
		pci, code := read(n, func() (nvml.PciInfo, nvml.Return) { return h.GetNvLinkRemotePciInfo(link) },
			"nvmlDeviceGetNvLinkRemotePciInfo_v2", "nvmlDeviceGetNvLinkRemotePciInfo")
		if code == 0 {
			ports = append(ports, port{busID: busID(pci)})
		}
	}
	return ports
}
