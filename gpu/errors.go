package gpu

import (
	"errors"
	"fmt"
	"strings"
)

// NVML return codes that callers act upon. The numbers are NVML's ABI.
const (
	CodeNotSupported    = 3
	CodeNoPermission    = 4
	CodeDriverNotLoaded = 9
	CodeLibraryNotFound = 12
	CodeNoSuchFunction  = 13
	CodeGPULost         = 15
	CodeResetRequired   = 16
	CodeDriverMismatch  = 18 // hold all restarts; running engines are fine
	CodeUnknown         = 999

	codeTimeout  = 10 // also: no event in the time given
	codeBlocked  = 17
	codeNotReady = 27
	codeNoGPU    = 28
)

// Codes of our own, outside NVML's range.
const (
	CodeNoAnswer   = -1 // a call exceeded its budget
	CodeChildEnded = -2 // the NVML child ended or could not be started
	CodeNoCGO      = -3 // this binary was built without cgo
	CodeBusy       = -4 // the child still starts, or waits for its back-off
)

// NVMLError is a failed look at the GPUs, in words for the user.
type NVMLError struct {
	Code int    `json:"code"`           // NVML's return code, or one of our negative ones
	Call string `json:"call,omitempty"` // the NVML function, e.g. nvmlInit_v2; "" when not one call's fault
	What string `json:"what"`           // what happened
	Why  string `json:"why,omitempty"`  // the usual cause, or what the system said; may be empty
	Fix  string `json:"fix"`            // the next command
}

// Error is What and Why; Describe gives the fix.
func (e *NVMLError) Error() string {
	text := e.What
	if e.Why != "" {
		text += ": " + e.Why
	}
	if e.Code > 0 {
		text += fmt.Sprintf(" (NVML code %d", e.Code)
		if e.Call != "" {
			text += " from " + e.Call
		}
		text += ")"
	}
	return text
}

// explained is an error that keeps its fix apart: *NVMLError, and that of package
// groups.
type explained interface {
	error
	Explain() (what, fix string)
}

// Explain is Error, and the next command.
func (e *NVMLError) Explain() (what, fix string) { return e.Error(), e.Fix }

// Describe splits an error of this package and its sub-packages into what
// happened and what to do about it. fix is empty for errors of other origin.
func Describe(err error) (what, fix string) {
	if err == nil {
		return "", ""
	}
	if e, ok := errors.AsType[explained](err); ok {
		what, fix = e.Explain()
		return strings.Replace(err.Error(), e.Error(), what, 1), fix // with what was wrapped around it
	}
	return err.Error(), ""
}

// nvmlError builds the error of one code. detail, when not empty, replaces the
// usual cause, because what the system said beats a guess.
func nvmlError(code int, call, detail string) *NVMLError {
	text, ok := codeTexts[code]
	if !ok {
		text = codeText{
			what: "the NVIDIA driver refused a request",
			why:  "this code is not expected here",
			fix:  "run `nvidia-smi`; if it fails too, reload the driver or reboot",
		}
	}
	if detail != "" {
		text.why = detail
	}
	return &NVMLError{Code: code, Call: call, What: text.what, Why: text.why, Fix: text.fix}
}

type codeText struct{ what, why, fix string }

// codeTexts is our own table, because NVML's nvmlErrorString may be absent from
// the library, and calling an absent function ends the process.
var codeTexts = map[int]codeText{
	1:                   {"NVML was used before it was ready", "the driver library lost its state", "run the command again; if it repeats, reload the driver or reboot"},
	2:                   {"NVML rejected an argument", "the driver library and warden disagree on an interface", "upgrade warden or the NVIDIA driver"},
	CodeNotSupported:    {"this GPU or driver does not support the request", "consumer cards and virtual GPUs lack some functions", "nothing to do: the figure stays empty"},
	CodeNoPermission:    {"no permission to talk to the NVIDIA driver", "this user may not open /dev/nvidiactl or /dev/nvidia*", "`ls -l /dev/nvidia*`, then add your user to the group that owns them and log in again"},
	6:                   {"NVML did not find the object", "the GPU or process disappeared meanwhile", "`warden gpus`"},
	8:                   {"a GPU has too little power", "its external power cable is not connected", "shut down and connect the power cables of every GPU"},
	CodeDriverNotLoaded: {"the NVIDIA driver is not loaded", "the kernel module is missing, often after a kernel upgrade without its module package", "`sudo modprobe nvidia`; if that fails, reinstall the driver for this kernel (`uname -r`)"},
	codeTimeout:         {"the NVIDIA driver timed out", "a GPU does not answer", "`sudo dmesg | grep -i xid`, then reboot"},
	11:                  {"the kernel has an interrupt problem with a GPU", "the GPU's interrupt line does not work", "`sudo dmesg | grep -i nvidia`, reseat the card or change its slot"},
	CodeLibraryNotFound: {"the NVIDIA driver library libnvidia-ml.so.1 was not found", "no driver is installed, or a container was started without the `utility` driver capability", "install the NVIDIA driver (in a container: `--gpus all -e NVIDIA_DRIVER_CAPABILITIES=compute,utility`); without a GPU: `warden up --demo` or `--device cpu`"},
	CodeNoSuchFunction:  {"the NVIDIA driver library lacks a function", "the driver is older than warden supports", "upgrade the NVIDIA driver"},
	14:                  {"a GPU's infoROM is corrupted", "its configuration memory is damaged", "`nvidia-smi -q | grep -i inforom`, then ask the maker for a replacement"},
	CodeGPULost:         {"a GPU fell off the bus", "power, heat, a loose slot or a broken card", "`sudo dmesg | grep -i xid`, then reboot; if it repeats, check power and seating"},
	CodeResetRequired:   {"a GPU needs a reset before it can be used", "it met an error that only a reset clears", "stop what uses it, then `sudo nvidia-smi --gpu-reset -i INDEX`, or reboot"},
	codeBlocked:         {"the operating system blocks access to a GPU", "the device cgroup of this container or service denies it", "allow the device (container: restart it; systemd: DeviceAllow=/dev/nvidia* rw)"},
	CodeDriverMismatch:  {"the NVIDIA library and the loaded kernel module have different versions", "the driver was upgraded and the old module is still loaded; engines that run go on, new ones cannot start", "reboot, or stop every GPU process and `sudo rmmod nvidia_uvm nvidia_drm nvidia_modeset nvidia && sudo modprobe nvidia`"},
	19:                  {"a GPU is in use by another operation", "a reset or reconfiguration is going on", "wait, then run the command again"},
	20:                  {"NVML had too little memory", "the machine is out of memory", "`free -h`, then stop what uses it"},
	23:                  {"the NVIDIA driver ran out of a resource", "too many contexts or open files", "`nvidia-smi`, then stop processes that are not needed"},
	codeNotReady:        {"the NVIDIA driver is not ready", "it still starts", "wait some seconds, then run the command again"},
	codeNoGPU:           {"no GPU was found", "the driver runs but manages no GPU", "`lspci | grep -i nvidia`; without a GPU: `warden up --demo` or `--device cpu`"},
	CodeUnknown:         {"the NVIDIA driver failed with an unknown error", "usual after suspend, or when a container lost access to its devices", "`sudo rmmod nvidia_uvm && sudo modprobe nvidia_uvm`; in a container: restart it"},

	CodeNoAnswer:   {"the NVIDIA driver does not answer", "a call exceeded its time budget, which a sick GPU causes", "`sudo dmesg | grep -i -e nvrm -e xid`; engines that run are left alone"},
	CodeChildEnded: {"the process that watches the GPUs ended", "", "run the command again; if it repeats, upgrade the NVIDIA driver or warden"},
	CodeNoCGO:      {"this warden was built without GPU detection", "it was compiled with CGO_ENABLED=0", "use the release with GPU support, or build with gcc and CGO_ENABLED=1; without a GPU: `warden up --demo` or `--device cpu`"},
	CodeBusy:       {"the GPUs cannot be read at the moment", "the process that watches them is starting", "wait some seconds; without nvidia-persistenced the driver needs long to start: `sudo nvidia-smi -pm 1`"},
}
