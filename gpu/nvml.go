//go:build cgo

package gpu

import (
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/dl"
	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/lm-warden/warden/gpu/internal/host"
)

// libraryPaths are tried in order. The dynamic loader knows the first on most
// systems; WSL and NixOS keep the driver outside its search path.
var libraryPaths = []string{
	"libnvidia-ml.so.1",
	"/usr/lib/wsl/lib/libnvidia-ml.so.1",
	"/run/opengl-driver/lib/libnvidia-ml.so.1",
}

// nvmlDriver is driver on go-nvml. It lives in the NVML child only.
//
// Two rules keep that child alive: every call goes through read, which asks
// first whether the library has the function; and no nvml.Return is ever
// printed, because its text comes from one more library function.
type nvmlDriver struct {
	path    string // of the library; "" = libraryPaths
	lib     nvml.Interface
	root    fs.FS    // "/", for /sys, /proc and /etc/passwd
	handles []handle // in PCI bus order: the position is the index
	lost    []Lost
}

// handle is an opened GPU.
type handle struct {
	nvml.Device
	uuid  string
	busID string
}

func newDriver(path string) driver { return &nvmlDriver{path: path, root: os.DirFS("/")} }

// read calls an NVML getter if the library has one of its symbols (go-nvml
// picks the newest version present), and returns NVML's code, 0 for success.
func read[T any](n *nvmlDriver, call func() (T, nvml.Return), symbols ...string) (T, int) {
	if !n.has(symbols...) {
		var zero T
		return zero, CodeNoSuchFunction
	}
	value, ret := call()
	return value, int(ret)
}

func (n *nvmlDriver) has(symbols ...string) bool {
	return slices.ContainsFunc(symbols, func(symbol string) bool {
		return n.lib.Extensions().LookupSymbol(symbol) == nil
	})
}

func (n *nvmlDriver) open() error {
	path, err := n.load()
	if err != nil {
		return err
	}
	n.lib = nvml.New(nvml.WithLibraryPath(path))
	if code := int(n.lib.Init()); code != 0 {
		return nvmlError(code, "nvmlInit_v2", "")
	}
	return n.enumerate()
}

// load finds a library that the loader accepts and that has an init function.
// go-nvml would report every failure here as "library not found", and would
// end the process where the init function is missing.
func (n *nvmlDriver) load() (string, error) {
	paths := libraryPaths
	if n.path != "" {
		paths = []string{n.path}
	}
	detail := ""
	for _, path := range paths {
		lib := dl.New(path, dl.RTLD_LAZY|dl.RTLD_GLOBAL)
		if err := lib.Open(); err != nil {
			// "No such file" is the normal case, and the table explains it
			// better; anything else (wrong architecture, damaged) is news.
			if n.path != "" || !strings.Contains(err.Error(), "No such file") {
				detail = err.Error()
			}
			continue
		}
		// Left open on purpose: go-nvml takes its own reference next, and
		// unloading a driver library gains nothing.
		if lib.Lookup("nvmlInit_v2") != nil && lib.Lookup("nvmlInit") != nil {
			return "", nvmlError(CodeNoSuchFunction, "nvmlInit_v2", path+" has no init function")
		}
		return path, nil
	}
	return "", nvmlError(CodeLibraryNotFound, "dlopen", detail)
}

// enumerate opens every GPU and sorts them in PCI bus order. A GPU that does
// not open is set aside in lost, and the others go on.
func (n *nvmlDriver) enumerate() error {
	count, code := read(n, n.lib.DeviceGetCount, "nvmlDeviceGetCount_v2", "nvmlDeviceGetCount")
	if code != 0 {
		return nvmlError(code, "nvmlDeviceGetCount_v2", "")
	}
	n.handles, n.lost = nil, nil
	for i := range count {
		h, call, code := n.openDevice(i)
		if code != 0 {
			err := nvmlError(code, call, "")
			n.lost = append(n.lost, Lost{NVMLIndex: i, Code: code, Err: err.Error(), Fix: withName(err.Fix, strconv.Itoa(i))})
			continue
		}
		n.handles = append(n.handles, h)
	}
	slices.SortStableFunc(n.handles, func(a, b handle) int { return host.CompareBusID(a.busID, b.busID) })
	return nil
}

// none says why there is no GPU to look at.
func (n *nvmlDriver) none() error {
	if len(n.lost) > 0 {
		return nvmlError(n.lost[0].Code, "nvmlDeviceGetHandleByIndex_v2", "")
	}
	return nvmlError(codeNoGPU, "nvmlDeviceGetCount_v2", "")
}

// openDevice returns the handle of a GPU by NVML's index, or the call that
// failed and its code. A GPU without identity and place cannot be used.
func (n *nvmlDriver) openDevice(i int) (h handle, call string, code int) {
	device, code := read(n, func() (nvml.Device, nvml.Return) { return n.lib.DeviceGetHandleByIndex(i) },
		"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex")
	if code != 0 {
		return handle{}, "nvmlDeviceGetHandleByIndex_v2", code
	}
	uuid, code := read(n, device.GetUUID, "nvmlDeviceGetUUID")
	if code != 0 {
		return handle{}, "nvmlDeviceGetUUID", code
	}
	pci, code := read(n, device.GetPciInfo, "nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetPciInfo_v2", "nvmlDeviceGetPciInfo")
	if code != 0 {
		return handle{}, "nvmlDeviceGetPciInfo_v3", code
	}
	return handle{Device: device, uuid: uuid, busID: busID(pci)}, "", 0
}

// busID reads the C string in NVML's PCI info. Versions before 3 fill in the
// short form only.
func busID(pci nvml.PciInfo) string {
	id := cString(pci.BusId[:])
	if id == "" {
		id = cString(pci.BusIdLegacy[:])
	}
	return host.NormalBusID(id)
}

func cString(chars []int8) string {
	var text strings.Builder
	for _, c := range chars {
		if c == 0 {
			break
		}
		text.WriteByte(byte(c))
	}
	return text.String()
}

func (n *nvmlDriver) detect() (Inventory, error) {
	if err := n.enumerate(); err != nil {
		return Inventory{}, err
	}
	if len(n.handles) == 0 {
		return Inventory{}, n.none()
	}
	inv := Inventory{Lost: n.lost}
	inv.Driver, _ = read(n, n.lib.SystemGetDriverVersion, "nvmlSystemGetDriverVersion")
	if version, code := n.cudaVersion(); code == 0 {
		inv.CUDA = strconv.Itoa(version/1000) + "." + strconv.Itoa(version%1000/10)
	}
	allowed, _ := AllowedCores() // unknown cores leave CPUs unknown: nothing is pinned then
	for i, h := range n.handles {
		device := n.device(h, allowed)
		device.Index = i
		inv.Devices = append(inv.Devices, device)
	}
	inv.Links = n.links()
	return inv, nil
}

// cudaVersion is 1000*major + 10*minor of the newest CUDA the driver serves.
func (n *nvmlDriver) cudaVersion() (int, int) {
	if version, code := read(n, n.lib.SystemGetCudaDriverVersion_v2, "nvmlSystemGetCudaDriverVersion_v2"); code == 0 {
		return version, 0
	}
	return read(n, n.lib.SystemGetCudaDriverVersion, "nvmlSystemGetCudaDriverVersion")
}

// device reads everything about one GPU. Whatever the driver does not tell
// stays at its "unknown" value: consumer cards refuse half of this.
func (n *nvmlDriver) device(h handle, allowed []int) Device {
	d := Device{UUID: h.uuid, PCIBusID: h.busID}
	d.Name, _ = read(n, h.GetName, "nvmlDeviceGetName")
	d.MemoryUsed, d.MemoryFree, d.Memory, _ = n.memory(h)
	d.ComputeCap, _ = read(n, func() ([2]int, nvml.Return) {
		major, minor, ret := h.GetCudaComputeCapability()
		return [2]int{major, minor}, ret
	}, "nvmlDeviceGetCudaComputeCapability")
	mig, code := read(n, func() (int, nvml.Return) {
		current, _, ret := h.GetMigMode()
		return current, ret
	}, "nvmlDeviceGetMigMode")
	d.MIG = code == 0 && mig == nvml.DEVICE_MIG_ENABLE
	if mode, code := read(n, h.GetComputeMode, "nvmlDeviceGetComputeMode"); code == 0 {
		d.ComputeMode = computeModeName(mode)
	}
	d.NUMANode, d.CPUs = n.numa(h, allowed)
	d.Processes = n.processes(h)
	d.Health = n.health(h)
	return d
}

func computeModeName(mode nvml.ComputeMode) string {
	switch mode {
	case nvml.COMPUTEMODE_DEFAULT:
		return ComputeModeDefault
	case nvml.COMPUTEMODE_EXCLUSIVE_THREAD:
		return ComputeModeExclusiveThread
	case nvml.COMPUTEMODE_PROHIBITED:
		return ComputeModeProhibited
	case nvml.COMPUTEMODE_EXCLUSIVE_PROCESS:
		return ComputeModeExclusiveProcess
	}
	return ""
}

// memory prefers version 2, whose used does not count what the driver reserved
// for itself. All zero with NVML's code where neither is supported.
func (n *nvmlDriver) memory(h handle) (used, free, total uint64, code int) {
	if v2, code := read(n, h.GetMemoryInfo_v2, "nvmlDeviceGetMemoryInfo_v2"); code == 0 {
		return v2.Used, v2.Free, v2.Total, 0
	}
	v1, code := read(n, h.GetMemoryInfo, "nvmlDeviceGetMemoryInfo")
	if code != 0 {
		return 0, 0, 0, code
	}
	return v1.Used, v1.Free, v1.Total, 0
}

// numa asks sysfs. nvmlDeviceGetNumaNodeId is not used: it answers where the
// GPU's own memory is a NUMA node (Grace), not where the GPU is attached.
func (n *nvmlDriver) numa(h handle, allowed []int) (int, []int) {
	sys, err := fs.Sub(n.root, "sys")
	if err != nil {
		return -1, nil
	}
	node, cpus := host.NUMA(sys, h.busID)
	return node, host.Intersect(cpus, allowed)
}

// processes lists who holds memory, compute and graphics, each PID once.
func (n *nvmlDriver) processes(h handle) []Process {
	compute, _ := read(n, h.GetComputeRunningProcesses, "nvmlDeviceGetComputeRunningProcesses_v3",
		"nvmlDeviceGetComputeRunningProcesses_v2", "nvmlDeviceGetComputeRunningProcesses")
	graphics, _ := read(n, h.GetGraphicsRunningProcesses, "nvmlDeviceGetGraphicsRunningProcesses_v3",
		"nvmlDeviceGetGraphicsRunningProcesses_v2", "nvmlDeviceGetGraphicsRunningProcesses")
	memory := map[int]uint64{}
	for _, p := range slices.Concat(compute, graphics) {
		used := p.UsedGpuMemory
		if used == ^uint64(0) { // NVML_VALUE_NOT_AVAILABLE
			used = 0
		}
		memory[int(p.Pid)] = max(memory[int(p.Pid)], used)
	}
	who := host.People{Root: n.root}
	var list []Process
	for pid, used := range memory {
		name, user := who.Identify(pid)
		list = append(list, Process{PID: pid, Name: name, User: user, Memory: used})
	}
	slices.SortFunc(list, func(a, b Process) int { return a.PID - b.PID })
	return list
}

func (n *nvmlDriver) sample(now time.Time) ([]Sample, error) {
	if len(n.handles) == 0 {
		return nil, n.none()
	}
	samples := make([]Sample, 0, len(n.handles))
	failed := 0
	for i, h := range n.handles {
		s := Sample{UUID: h.uuid, Index: i, At: now}
		n.measure(h, &s)
		if _, own := s.Fault(); s.Code != 0 && !own {
			failed++
		}
		samples = append(samples, s)
	}
	if failed == len(samples) {
		// Not one GPU's fault: the session with the driver is broken, and the
		// parent replaces it together with this process.
		return nil, nvmlError(samples[0].Code, "nvmlDeviceGetMemoryInfo", "")
	}
	for _, l := range n.lost {
		samples = append(samples, Sample{Index: -1, At: now, Code: l.Code, Err: l.Err, Fix: l.Fix})
	}
	return samples, nil
}
