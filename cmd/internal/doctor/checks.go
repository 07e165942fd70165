package doctor

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	humanize "github.com/dustin/go-humanize"
	"golang.org/x/sys/unix"

	"github.com/lm-warden/warden/configs"
	"github.com/lm-warden/warden/gpu"
	"github.com/lm-warden/warden/gpu/groups"
	"github.com/lm-warden/warden/supervisor/vllm"
)

const (
	// enoughShm is where NCCL and vLLM's own queues between the processes of a
	// replica stop being at risk; a container's default is 64 MiB.
	enoughShm = 1 << 30
	// Each request in flight holds two descriptors, one to the client and one to
	// the engine. 1,024 leave room for 500, which 16 replicas of 32 can have.
	fewestFiles = 1 << 10
	enoughFiles = 10 << 10 // 5,000 streams
	// slack is what a download needs beside the final size.
	slack = 1.1
)

func one(check string, mark Mark, fact, fix string) []Finding {
	return []Finding{{Check: check, Mark: mark, Fact: fact, Fix: fix}}
}

func configuration(f Facts) []Finding {
	const name = "configuration"
	if f.Config.Err != nil {
		return one(name, Fail, f.Config.Err.Error(), f.Config.Fix)
	}
	from := "no file, defaults"
	if len(f.Config.Files) > 0 {
		from = "from " + strings.Join(f.Config.Files, ", ")
	}
	return one(name, OK, fmt.Sprintf("%s; %d keys set, %d models named", from, f.Config.Set, len(f.Models)), "")
}

func daemon(f Facts) []Finding {
	if silent := f.Daemon.Silent; silent != nil {
		return one("warden", Warn, silent.Error(), silent.Hint())
	}
	if f.Daemon.PID == 0 {
		return nil
	}
	found := one("warden", OK, fmt.Sprintf("warden %s runs already (pid %d): what it uses counts as free", f.Daemon.Version, f.Daemon.PID), "")
	if f.Daemon.Access != "" {
		found = append(found, Finding{"running warden", Warn, f.Daemon.Access,
			"mend the file, it is read again by itself; until then a key that was taken out still works"})
	}
	return found
}

func leftovers(f Facts) []Finding {
	if f.Daemon.PID != 0 || f.Daemon.Silent != nil || len(f.Left) == 0 {
		return nil
	}
	var names []string
	for _, l := range f.Left {
		names = append(names, fmt.Sprintf("%s of %s (pid %d)", l.Replica, l.Model, l.PID))
	}
	return one("engines", Warn, "without a warden: "+strings.Join(names, ", "), "`warden up` takes them over, `warden down` ends them")
}

func driver(f Facts) []Finding {
	const name = "driver"
	if f.Config.Device != configs.DeviceCUDA {
		return one(name, OK, "not needed for --device "+f.Config.Device, "")
	}
	if f.GPU.Err != nil {
		what, fix := gpu.Describe(f.GPU.Err)
		return one(name, Fail, what, fix)
	}
	fact := "NVIDIA " + f.GPU.Inventory.Driver
	if f.GPU.Inventory.CUDA != "" {
		fact += ", CUDA " + f.GPU.Inventory.CUDA
	}
	return one(name, OK, fact, "")
}

// gpus has a line for each GPU, and one for the plan when there is none.
func gpus(f Facts) []Finding {
	if f.Config.Device != configs.DeviceCUDA || f.GPU.Err != nil {
		return nil
	}
	const name = "gpu"
	var all []Finding
	refused := groups.Refusals(f.GPU.Inventory, groups.Request{})
	for _, d := range f.GPU.Inventory.Devices {
		i := slices.IndexFunc(refused, func(r groups.Refusal) bool { return r.Device.UUID == d.UUID })
		if i >= 0 {
			all = append(all, Finding{name, Warn, refused[i].What, refused[i].Fix})
			continue
		}
		all = append(all, Finding{name, OK, describeGPU(d), ""})
	}
	for _, lost := range f.GPU.Inventory.Lost {
		all = append(all, Finding{name, Warn, fmt.Sprintf("the GPU with NVML index %d does not answer: %s; the others can be used", lost.NVMLIndex, lost.Err), lost.Fix})
	}
	if f.GPU.PlanErr != nil {
		all = append(all, Finding{"plan", Fail, f.GPU.PlanErr.Error(), f.GPU.PlanFix})
	}
	return all
}

func describeGPU(d gpu.Device) string {
	text := d.String()
	if d.Memory > 0 {
		text += fmt.Sprintf(": %s of %s free", humanize.IBytes(d.MemoryFree), humanize.IBytes(d.Memory))
	}
	var users []string
	for _, p := range d.Processes {
		users = append(users, p.String())
	}
	if len(users) > 0 {
		text += ", used by " + strings.Join(users, ", ")
	}
	return text
}

func engine(f Facts) []Finding {
	const name = "vllm"
	if f.Config.Device == configs.DeviceSimulated {
		return one(name, OK, "not needed: engines are SIMULATED", "")
	}
	if f.VLLM.Err != nil {
		return one(name, Fail, f.VLLM.Err.Error(), f.VLLM.Fix)
	}
	in := f.VLLM.Install
	version := in.Version
	if version == "" {
		version = "of unknown version"
	}
	all := one(name, OK, fmt.Sprintf("%s, %s (%s)", version, strings.Join(in.Argv, " "), in.Origin), "")
	for _, w := range in.Warnings {
		all = append(all, Finding{name, Warn, w, "tested are " + vllm.OldestVersion + " to " + vllm.NewestTested + ": `warden setup` installs one"})
	}
	return all
}

// weights looks for each model's files, and for room for those that are to come.
func weights(f Facts) []Finding {
	const name = "weights"
	var all []Finding
	coming := map[string]uint64{} // bytes still to be downloaded, by directory
	for _, m := range f.Models {
		dir := m.Weights.Dir
		switch {
		case m.BuiltIn:
			all = append(all, Finding{name, OK, m.Alias + " is built in", ""})
			continue
		case m.Weights.Complete:
			all = append(all, Finding{name, OK, fmt.Sprintf("%s is in %s", m.Alias, dir), ""})
			continue
		case !m.Weights.Download:
			all = append(all, Finding{name, Fail, fmt.Sprintf("%s: %s holds no complete model", m.Alias, dir), "name a directory with config.json and all weights, or a repository"})
			continue
		case m.FreeErr != nil:
			all = append(all, Finding{name, Warn, fmt.Sprintf("%s is not here and the room in %s cannot be read: %v", m.Alias, dir, m.FreeErr), "see that HF_HOME names a directory you can write"})
			continue
		}
		coming[dir] += uint64(slack * float64(m.Bytes))
		fact := fmt.Sprintf("%s is downloaded to %s at the first start", m.Alias, dir)
		switch {
		case coming[dir] > m.Free:
			all = append(all, Finding{name, Fail, fmt.Sprintf("%s: it needs %s, and %s are free", fact, humanize.Bytes(coming[dir]), humanize.Bytes(m.Free)),
				"free some room, or name another disk: HF_HOME=/path"})
		case m.Bytes == 0:
			all = append(all, Finding{name, Warn, fmt.Sprintf("%s: its size is not known, %s are free", fact, humanize.Bytes(m.Free)),
				"compare with the size of its files on Hugging Face"})
		default:
			all = append(all, Finding{name, OK, fmt.Sprintf("%s: %s, %s are free", fact, humanize.Bytes(m.Bytes), humanize.Bytes(m.Free)), ""})
		}
	}
	return all
}

func port(f Facts) []Finding {
	const name = "port"
	if f.Port.Address == "" {
		return nil
	}
	if f.Port.Err == nil {
		return one(name, OK, f.Port.Address+" is free", "")
	}
	if f.Daemon.PID != 0 && strings.HasPrefix(f.Port.Owner, fmt.Sprintf("pid %d ", f.Daemon.PID)) {
		return one(name, OK, f.Port.Address+" is served by the warden that runs", "")
	}
	fact := fmt.Sprintf("cannot listen on %s: %v", f.Port.Address, f.Port.Err)
	if f.Port.Owner != "" {
		fact = fmt.Sprintf("cannot listen on %s: used by %s", f.Port.Address, f.Port.Owner)
	}
	fix := "`--listen ADDRESS`, or stop what uses it"
	if errors.Is(f.Port.Err, unix.EADDRNOTAVAIL) {
		return one(name, Fail, fact, "name an address of this machine, such as `--listen "+configs.Default().Listen+"`; `ip address` lists them")
	}
	if errors.Is(f.Port.Err, unix.EACCES) {
		return one(name, Fail, fact, "ports below 1024 are root's: `--listen "+configs.Default().Listen+"`")
	}
	if host, number, err := net.SplitHostPort(f.Port.Address); err == nil {
		if n, err := strconv.Atoi(number); err == nil {
			fix = fmt.Sprintf("`--listen %s`, or stop it", net.JoinHostPort(host, strconv.Itoa(n+1)))
		}
	}
	return one(name, Fail, fact, fix)
}

func sharedMemory(f Facts) []Finding {
	const name, fix = "/dev/shm", "in a container: `--ipc=host` or `--shm-size=8g`; else remount it larger: `sudo mount -o remount,size=8g /dev/shm`"
	if f.Shm.Err != nil {
		return one(name, Warn, "its size cannot be read: "+f.Shm.Err.Error(), fix)
	}
	fact := humanize.IBytes(f.Shm.Size)
	if f.Shm.Size >= enoughShm {
		return one(name, OK, fact, "")
	}
	fact += " is little for the processes of one engine"
	if slices.ContainsFunc(f.Models, func(m Model) bool { return m.TP > 1 }) {
		fact += ", and NCCL between GPUs needs more"
	}
	return one(name, Warn, fact, fix)
}

func openFiles(f Facts) []Finding {
	const name, fix = "open files", "`ulimit -Hn 65536` as root, or LimitNOFILE= of the service"
	fact := fmt.Sprintf("limit %d, 2 for each request in flight", f.OpenFiles.Hard)
	switch {
	case f.OpenFiles.Err != nil:
		return one(name, Warn, "the limit cannot be read: "+f.OpenFiles.Err.Error(), fix)
	case f.OpenFiles.Hard < fewestFiles:
		return one(name, Fail, fact, fix)
	case f.OpenFiles.Hard < enoughFiles:
		return one(name, Warn, fact, fix)
	}
	return one(name, OK, fact, "")
}

// memory compares the machine's memory with the largest model: weights pass
// through it on their way to the GPU.
func memory(f Facts) []Finding {
	const name = "memory"
	if f.Memory.Available == 0 {
		return nil
	}
	usable := f.Memory.Available
	fact := humanize.IBytes(usable) + " available"
	if f.Memory.Limit > 0 && f.Memory.Limit < usable {
		usable = f.Memory.Limit
		fact = humanize.IBytes(usable) + " is the limit of the control group"
	}
	for _, m := range f.Models {
		if m.Bytes > usable && f.Config.Device == configs.DeviceCPU {
			return one(name, Fail, fmt.Sprintf("%s, and %s takes %s on the CPU", fact, m.Alias, humanize.Bytes(m.Bytes)), "a smaller model (`warden models`), or more memory")
		}
		if m.Bytes > usable {
			return one(name, Warn, fmt.Sprintf("%s; the weights of %s (%s) are read through it", fact, m.Alias, humanize.Bytes(m.Bytes)), "raise the limit, or expect a slow load")
		}
	}
	return one(name, OK, fact, "")
}

func directories(f Facts) []Finding {
	var all []Finding
	for _, d := range f.Dirs {
		if d.Err != nil {
			all = append(all, Finding{d.Role, Fail, d.Err.Error(), d.Fix})
			continue
		}
		all = append(all, Finding{d.Role, OK, d.Path, ""})
	}
	return all
}

func socketPath(f Facts) []Finding {
	over := len(f.Socket.Path) - f.Socket.Max
	if f.Socket.Max == 0 || over <= 0 {
		return nil // the runtime directory has its line already
	}
	return one("sockets", Fail, fmt.Sprintf("%s is %d bytes too long for a unix socket", f.Socket.Path, over),
		"use a shorter --name, or set XDG_RUNTIME_DIR to a shorter directory")
}

// smallInits are programs that reap the orphans of a container.
var smallInits = []string{"init", "systemd", "tini", "docker-init", "catatonit", "dumb-init", "s6-svscan", "podman-init"}

func container(f Facts) []Finding {
	if f.Container.Kind == "" {
		return nil
	}
	const name = "container"
	missing := gpuHidden(f)
	switch {
	case missing:
		return one(name, Warn, f.Container.Kind+" without access to the driver", "start it with `--gpus all -e NVIDIA_DRIVER_CAPABILITIES=compute,utility`")
	case !slices.Contains(smallInits, f.Container.Init):
		return one(name, Warn, fmt.Sprintf("%s whose process 1 (%s) may not collect ended processes", f.Container.Kind, f.Container.Init), "start it with `--init`")
	}
	return one(name, OK, f.Container.Kind, "")
}

// gpuHidden says whether the driver's library is missing, which in a container
// is the usual sign of a missing capability.
func gpuHidden(f Facts) bool {
	failed, ok := errors.AsType[*gpu.NVMLError](f.GPU.Err)
	return ok && f.Config.Device == configs.DeviceCUDA && failed.Code == gpu.CodeLibraryNotFound
}
