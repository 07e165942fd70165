// Package gpu says what is in the machine and how it is: it detects NVIDIA GPUs,
// samples them, and reports their faults (XIDs). Package groups plans which GPUs
// each replica gets.
//
// # Reader's path
//
//   - gpu.go: the values everybody shares (Device, Inventory, Sample, Source).
//   - topology.go: how far two GPUs are from each other.
//   - group.go: a replica's GPUs and its environment; cpu.go: the cores this
//     process may use; package groups: who gets what.
//   - child.go, process.go: the parent's side of NVML. child.go holds one
//     goroutine that owns the child; process.go is one life of it.
//   - serve.go: the child's side; protocol.go: the JSON lines between them.
//   - driver.go: what serve.go needs of NVML; nvml*.go: that on go-nvml (cgo);
//     nvml_stub.go: the same without cgo, an error that says so.
//   - errors.go: one message per NVML code: what, why, next command. xid.go and
//     package xid: the same for XIDs. fault.go: which of both set a GPU aside,
//     and which mean that no engine can start; probe.go: how that is found out.
//   - internal/host: NUMA nodes and process names from /sys and /proc.
//   - gputest: a libnvidia-ml for tests, compiled from C.
//   - fake.go: simulated GPUs for the demo.
//
// # Why a child process
//
// go-nvml calls NVML's C functions through lazy binding. A driver library that
// lacks one of them ends the whole process with exit status 127, which no
// recover can stop, and a sick driver can block a call for ever in an
// uninterruptible sleep. Both may cost warden its GPU figures, never its
// streams. So every call happens in a child, within a budget; the child is
// killed when it exceeds the budget and started again, with a back-off, by the
// next call.
//
// # Why indices and UUIDs
//
// vLLM parses CUDA_VISIBLE_DEVICES as integers, so Group.Env pins by index in
// PCI bus order. The index moves when a GPU falls off the bus; the UUID does
// not. Keep the UUID, and look the index up (Inventory.Find) before each start.
//
// # Lazy binding
//
// A binary linked with -z now ends before main with exit status 127 ("symbol
// lookup error: ... undefined symbol: nvml..."), because NVML's symbols only
// exist after dlopen. cgo does not allow -z lazy in a #cgo line, so every build
// and test must pass -ldflags=-extldflags=-Wl,-z,lazy where the tool chain
// defaults to the opposite (Nix, Gentoo hardened). The last -z wins.
package gpu
