// Package xid knows the faults ("XIDs") that the NVIDIA driver reports for a
// GPU: what each means, whether the GPU may still be used, and what to do.
//
// Reading order: Lookup and its table (one row a code), kernellog.go (the same
// faults as the kernel's log tells them, for the time before warden looked).
package xid

import "strconv"

// Action is what a fault asks for.
type Action string

// The actions, from none to all.
const (
	// Ignore: a program on the GPU failed; the GPU is as good as before.
	Ignore Action = "ignore"
	// Watch: worth telling. The GPU goes on, and its engine's own health decides.
	Watch Action = "watch"
	// Drain: the GPU needs a reset soon. What it holds may finish, nothing new goes there.
	Drain Action = "drain"
	// Stop: the GPU is gone, or what it computes cannot be trusted.
	Stop Action = "stop"
)

// Info is what is known of one code.
type Info struct {
	Code   int
	Name   string // a title in the words of NVIDIA's catalogue; "" for codes not listed here
	Action Action
	Fix    string // the next step; "" where there is nothing to do
}

// The fixes. Whoever knows the GPU puts its UUID where they say INDEX: nvidia-smi
// takes both, and an index moves when another GPU is lost.
const (
	fixProgram = "look at the engine's log; if it repeats with every program, test the card"
	fixReset   = "stop what uses it, then `sudo nvidia-smi --gpu-reset -i INDEX`, or reboot"
	fixReboot  = "reboot; if it repeats, check power, heat and seating of the card"
	fixRemap   = "reset or reboot at a quiet time: the memory row is replaced then"
	fixReplace = "`nvidia-smi -q -d ECC,ROW_REMAPPER -i INDEX`; if it repeats, have the card replaced"
	fixLink    = "reset or reboot; if it repeats, reseat the NVLink bridge or the card"
)

// table follows the immediate action of NVIDIA's XID catalogue
// (docs.nvidia.com/deploy/xid-errors): restart the application = Ignore, ignore
// or contact support = Watch, reset = Drain or Stop, restart the machine = Stop.
// A code that corrupts memory unnoticed is Stop, whatever else it asks for.
var table = map[int]Info{
	8:   {Name: "GPU stopped processing", Action: Ignore, Fix: fixProgram},
	11:  {Name: "invalid or corrupted push buffer stream", Action: Ignore, Fix: fixProgram},
	13:  {Name: "graphics engine exception", Action: Ignore, Fix: fixProgram},
	31:  {Name: "GPU memory page fault", Action: Ignore, Fix: fixProgram},
	32:  {Name: "invalid or corrupted push buffer stream", Action: Ignore, Fix: fixProgram},
	43:  {Name: "GPU stopped processing", Action: Ignore, Fix: fixProgram},
	45:  {Name: "preemptive cleanup after earlier errors", Action: Ignore},
	46:  {Name: "GPU stopped processing", Action: Drain, Fix: fixReset},
	48:  {Name: "double-bit ECC error", Action: Stop, Fix: fixReset},
	61:  {Name: "internal microcontroller breakpoint", Action: Watch, Fix: fixReset},
	62:  {Name: "internal microcontroller halt", Action: Drain, Fix: fixReset},
	63:  {Name: "ECC page retirement or row remap recorded", Action: Watch, Fix: fixRemap},
	64:  {Name: "ECC page retirement or row remap failed", Action: Drain, Fix: fixReplace},
	68:  {Name: "video processor exception", Action: Ignore, Fix: fixProgram},
	69:  {Name: "graphics engine class error", Action: Ignore, Fix: fixProgram},
	74:  {Name: "NVLink error", Action: Drain, Fix: fixLink},
	79:  {Name: "GPU fell off the bus", Action: Stop, Fix: fixReboot},
	92:  {Name: "high rate of single-bit ECC errors", Action: Watch, Fix: fixReplace},
	94:  {Name: "contained memory error", Action: Watch, Fix: fixRemap},
	95:  {Name: "uncontained memory error", Action: Stop, Fix: fixReset},
	109: {Name: "context switch timeout", Action: Ignore, Fix: fixProgram},
	119: {Name: "GSP firmware does not answer", Action: Drain, Fix: fixReset},
	120: {Name: "GSP firmware error", Action: Drain, Fix: fixReset},
	140: {Name: "unrecovered ECC error", Action: Stop, Fix: fixReset},
	143: {Name: "GPU initialisation failed", Action: Drain, Fix: fixReset},
	154: {Name: "the driver asks for another recovery action", Action: Watch, Fix: "`nvidia-smi -q -i INDEX | grep -i recovery`"},
}

// Lookup returns what is known of a code. One that is not listed is watched:
// the catalogue has some 170, most of them for parts that a card may lack, and
// setting a GPU aside that serves well would cost more than waiting for its
// engine to fail. Where the driver itself asks for a reset it says so apart
// (gpu.Sample.Recovery).
func Lookup(code int) Info {
	info, ok := table[code]
	if !ok {
		info = Info{Action: Watch, Fix: "`sudo dmesg | grep -i xid`, and look the number up in NVIDIA's XID catalogue"}
	}
	info.Code = code
	return info
}

// String is for lists: "XID 79 (GPU fell off the bus)".
func (i Info) String() string {
	text := "XID " + strconv.Itoa(i.Code)
	if i.Name != "" {
		text += " (" + i.Name + ")"
	}
	return text
}
