package doctor

import (
	"bytes"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/lm-warden/warden/cmd/internal/exit"
	"github.com/lm-warden/warden/cmd/internal/plan"
	"github.com/lm-warden/warden/configs"
	"github.com/lm-warden/warden/gpu"
	"github.com/lm-warden/warden/gpu/xid"
	"github.com/lm-warden/warden/supervisor"
	"github.com/lm-warden/warden/supervisor/control"
	"github.com/lm-warden/warden/supervisor/vllm"
	"github.com/lm-warden/warden/supervisor/vllm/tune"
)

const gib = 1 << 30

// healthy is a machine where everything is fine.
func healthy() Facts {
	return Facts{
		Config: Config{Device: configs.DeviceCUDA, Files: []string{"/etc/warden/config.yaml"}, Set: 3},
		GPU: GPU{Inventory: gpu.Inventory{Driver: "580.95.05", CUDA: "13.0", Devices: []gpu.Device{
			{Index: 0, UUID: "GPU-a", PCIBusID: "0000:3b:00.0", Name: "NVIDIA RTX A4000", Memory: 16 * gib, MemoryFree: 15.5 * gib, MemoryUsed: gib / 2, ComputeCap: [2]int{8, 6}},
		}}},
		VLLM:      VLLM{Install: vllm.Install{Argv: []string{"/v/bin/vllm"}, Version: "0.32.0", Origin: "PATH"}},
		Models:    []Model{{Alias: "qwen3-4b", Bytes: 8e9, TP: 1, Weights: vllm.Weights{Dir: "/hub", Download: true, Complete: true}}},
		Port:      Port{Address: "127.0.0.1:8000"},
		Shm:       Filesystem{Size: 8 * gib},
		OpenFiles: Limit{Hard: 1 << 20},
		Memory:    Memory{Available: 64 * gib},
		Dirs:      []Dir{{Role: "runtime dir", Path: "/run/user/1/warden/default"}},
		Spool:     Spool{Dir: "/tmp", AboveMiB: 16},
		Socket:    Socket{Path: "/run/user/1/warden/default/r999/shim.sock", Max: 107},
	}
}

func TestHealthyMachine(t *testing.T) {
	findings := Examine(healthy())
	var out bytes.Buffer
	if err := Print(&out, findings); err != nil {
		t.Fatal(err)
	}
	const want = `ok    configuration  from /etc/warden/config.yaml; 3 keys set, 1 models named
ok    driver         NVIDIA 580.95.05, CUDA 13.0
ok    gpu            GPU 0 (RTX A4000): 16 GiB of 16 GiB free
ok    xid            none in the kernel's log
ok    vllm           0.32.0, /v/bin/vllm (PATH)
ok    weights        qwen3-4b is in /hub
ok    port           127.0.0.1:8000 is free
ok    /dev/shm       8.0 GiB
ok    open files     limit 1048576, 2 for each request in flight
ok    memory         64 GiB available
ok    runtime dir    /run/user/1/warden/default
ok    spool dir      /tmp, for request bodies above 16 MiB
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("printed (-want +got):\n%s", diff)
	}
	if Failed(findings) {
		t.Error("it counts as failed")
	}
}

// Each row breaks one thing of a healthy machine, and exactly that is found.
func TestEachCheck(t *testing.T) {
	download := vllm.Weights{Dir: "/hub", Download: true}
	tests := []struct {
		name      string
		change    func(*Facts)
		mark      Mark
		check     string
		fact, fix string // parts of the text
	}{
		{"configuration", func(f *Facts) { f.Config.Err, f.Config.Fix = errors.New("warden.yaml:12: unknown key"), "mend it" },
			Fail, "configuration", "warden.yaml:12", "mend it"},
		{"running", func(f *Facts) { f.Daemon = Daemon{PID: 7, Version: "1.2"}; f.Left = []Left{{"r0", "m", 9}} },
			OK, "warden", "warden 1.2 runs already (pid 7)", ""},
		{"keys gone under it", func(f *Facts) { f.Daemon = Daemon{PID: 7, Version: "1.2", Access: "keys: no such file"} },
			Warn, "running warden", "keys: no such file", "mend the file"},
		{"frozen", func(f *Facts) {
			f.Daemon = Daemon{PID: 7, Silent: &control.SilentError{PID: 7, Stopped: true, Socket: "/c"}}
			f.Left = []Left{{"r0", "m", 9}}
		}, Warn, "warden", "pid 7 is stopped by a signal", "kill -CONT 7"},
		{"silent", func(f *Facts) {
			f.Daemon = Daemon{Silent: &control.SilentError{Socket: "/c"}}
			f.Left = []Left{{"r0", "m", 9}}
		},
			Warn, "warden", "has not answered on /c", "try again"},
		{"left over", func(f *Facts) { f.Left = []Left{{"r0", "m", 9}, {"r1", "m", 10}} },
			Warn, "engines", "r0 of m (pid 9), r1 of m (pid 10)", "warden down"},
		{"driver mismatch", func(f *Facts) {
			f.GPU.Err = &gpu.NVMLError{Code: gpu.CodeDriverMismatch, What: "different versions", Fix: "reboot"}
		}, Fail, "driver", "different versions (NVML code 18)", "reboot"},
		{"busy GPU", func(f *Facts) {
			d := &f.GPU.Inventory.Devices[0]
			d.MemoryFree, d.MemoryUsed = 5*gib, 11*gib
			d.Processes = []gpu.Process{{PID: 998, Name: "python", User: "ana"}}
		}, Warn, "gpu", "GPU 0 (RTX A4000) has 11 of 16 GiB used by pid 998 (python, user ana)", "kill 998"},
		{"MIG", func(f *Facts) { f.GPU.Inventory.Devices[0].MIG = true }, Warn, "gpu", "partitioned (MIG)", "-mig 0"},
		{"compute mode", func(f *Facts) { f.GPU.Inventory.Devices[0].ComputeMode = gpu.ComputeModeProhibited },
			Warn, "gpu", "PROHIBITED", "-c DEFAULT"},
		{"lost GPU", func(f *Facts) {
			f.GPU.Inventory.Lost = []gpu.Lost{{NVMLIndex: 1, Code: 15, Err: "fell off the bus", Fix: "reboot"}}
		},
			Warn, "gpu", "NVML index 1 does not answer: fell off the bus", "reboot"},
		{"GPU set aside", func(f *Facts) {
			f.GPU.Aside = map[string]supervisor.Aside{"GPU-a": {Cause: "XID 119", Fix: "reset it", At: time.Unix(0, 0)}}
		}, Warn, "set aside", "GPU 0 (RTX A4000) is not used since 1970-01-01", "reset it; then `warden retry`"},
		{"memory errors", func(f *Facts) { f.GPU.Inventory.Devices[0].Health.ECCUncorrected = new(uint64(3)) },
			Warn, "gpu health", "GPU 0 (RTX A4000) had 3 memory errors", "--gpu-reset -i GPU-a"},
		{"no spare row", func(f *Facts) { f.GPU.Inventory.Devices[0].Health.RemapFailed = true },
			Warn, "gpu health", "could not be replaced; warden sets it aside", "ROW_REMAPPER -i GPU-a"},
		{"a row to replace", func(f *Facts) { f.GPU.Inventory.Devices[0].Health.RemapPending = true },
			Warn, "gpu health", "waits for a reset", "--gpu-reset -i GPU-a"},
		{"reset due", func(f *Facts) { f.GPU.Inventory.Devices[0].Health.Recovery = gpu.RecoveryReset },
			Warn, "gpu health", "the driver asks for a reset", "--gpu-reset -i GPU-a"},
		{"power cap", func(f *Facts) {
			h := &f.GPU.Inventory.Devices[0].Health
			h.PowerLimit, h.PowerDefault = new(100.0), new(140.0)
		}, Warn, "gpu health", "limited to 100 W, 140 W is its default", "nvidia-smi -i 0 -pl 140"},
		{"XID of the GPU", func(f *Facts) {
			f.Kernel.XIDs = []xid.Logged{{PCIBusID: "0000:3b:00.0", Code: 119, SinceBoot: time.Hour}, {PCIBusID: "0000:3b:00.0", Code: 119, SinceBoot: 192 * time.Minute}}
		}, Warn, "xid", "GPU 0 (RTX A4000): XID 119 (GSP firmware does not answer), 2 times since boot, the last 3h12m after it", "--gpu-reset -i GPU-a"},
		{"XID of a program", func(f *Facts) { f.Kernel.XIDs = []xid.Logged{{PCIBusID: "0000:3b:00.0", Code: 13}} },
			OK, "xid", "XID 13 (graphics engine exception), 1 time since boot, the last 0s after it; the fault of a program", ""},
		{"kernel log kept from users", func(f *Facts) { f.Kernel.Err = fs.ErrPermission }, OK, "xid", "`sudo dmesg | grep -i xid` shows", ""},
		{"GPUs far apart", func(f *Facts) {
			f.GPU.Inventory.Links = []gpu.Link{{A: 0, B: 1, Level: gpu.LevelSystem}}
			f.GPU.Groups = []gpu.Group{{{Index: 0}, {Index: 1}}}
		}, Warn, "topology", "GPUs 0,1 of one replica talk across NUMA nodes (SYS)", "--tp 1"},
		{"no plan", func(f *Facts) {
			f.GPU.PlanErr, f.GPU.PlanFix = errors.New("`--dp 4` needs 4 GPUs, this machine has 1"), "`--dp 1`"
		}, Fail, "plan", "needs 4 GPUs", "--dp 1"},
		{"no vLLM", func(f *Facts) { f.VLLM = VLLM{Err: errors.New("none found"), Fix: "`warden setup`"} },
			Fail, "vllm", "none found", "warden setup"},
		{"untested vLLM", func(f *Facts) { f.VLLM.Install.Warnings = []string{"newer than the newest tested"} },
			Warn, "vllm", "newer than the newest tested", vllm.NewestTested},
		{"no room for weights", func(f *Facts) { f.Models[0].Weights, f.Models[0].Free = download, 8.5e9 },
			Fail, "weights", "it needs 8.8 GB, and 8.5 GB are free", "HF_HOME"},
		{"room for one of two models", func(f *Facts) {
			f.Models[0].Weights, f.Models[0].Free = download, 10e9
			f.Models = append(f.Models, f.Models[0])
			f.Models[1].Alias = "second"
		}, Fail, "weights", "second is downloaded to /hub at the first start: it needs 18 GB, and 10 GB are free", "HF_HOME"},
		{"weights of unknown size", func(f *Facts) { f.Models[0].Weights, f.Models[0].Bytes, f.Models[0].Free = download, 0, 10e9 },
			Warn, "weights", "its size is not known", "Hugging Face"},
		{"unreadable room", func(f *Facts) { f.Models[0].Weights, f.Models[0].FreeErr = download, errors.New("stale handle") },
			Warn, "weights", "stale handle", "HF_HOME"},
		{"a directory without a model", func(f *Facts) { f.Models[0].Weights = vllm.Weights{Dir: "/models/x"} },
			Fail, "weights", "/models/x holds no complete model", "config.json"},
		{"port taken", func(f *Facts) { f.Port.Err, f.Port.Owner = errors.New("in use"), "pid 4121 (ollama)" },
			Fail, "port", "cannot listen on 127.0.0.1:8000: used by pid 4121 (ollama)", "--listen 127.0.0.1:8001"},
		{"port not allowed", func(f *Facts) { f.Port = Port{Address: "127.0.0.1:80", Err: unix.EACCES} },
			Fail, "port", "cannot listen on 127.0.0.1:80: permission denied", "--listen 127.0.0.1:8000"},
		{"somebody else's address", func(f *Facts) { f.Port = Port{Address: "10.1.2.3:80", Err: unix.EADDRNOTAVAIL} },
			Fail, "port", "cannot listen on 10.1.2.3:80: cannot assign", "an address of this machine"},
		{"keys", func(f *Facts) { f.WayIn = WayIn{KeysFile: "/k", Keys: 3} }, OK, "API keys", "3 in /k", ""},
		{"no keys", func(f *Facts) {
			f.WayIn = WayIn{KeysFile: "/k", KeysErr: exit.Fail(exit.Config, errors.New("gone"), "make one")}
		},
			Fail, "API keys", "gone", "make one"},
		{"certificate", func(f *Facts) { f.WayIn = WayIn{Certificate: "/c", Left: 20 * 24 * time.Hour} }, OK, "certificate", "/c, until", ""},
		{"certificate at its end", func(f *Facts) { f.WayIn = WayIn{Certificate: "/c", Left: time.Hour} }, Warn, "certificate", "soon", "renew"},
		{"certificate past its end", func(f *Facts) { f.WayIn = WayIn{Certificate: "/c", Left: -time.Hour} }, Warn, "certificate", "has expired", "renew"},
		{"wrong certificate", func(f *Facts) {
			f.WayIn = WayIn{Certificate: "/c", CertErr: exit.Fail(exit.Config, errors.New("no pair"), "name both")}
		},
			Fail, "certificate", "no pair", "name both"},
		{"access log", func(f *Facts) { f.WayIn = WayIn{AccessLog: "/a"} }, OK, "access log", "/a", ""},
		{"no access log", func(f *Facts) { f.WayIn = WayIn{AccessLog: "/a", LogErr: errors.New("is a directory")} }, Fail, "access log", "is a directory", "access_log"},
		{"another warden's port", func(f *Facts) {
			f.Daemon, f.Port.Err, f.Port.Owner = Daemon{PID: 7}, errors.New("in use"), "pid 77 (warden)"
		}, Fail, "port", "used by pid 77", "--listen"},
		{"small shm", func(f *Facts) { f.Shm.Size = 64 << 20 }, Warn, "/dev/shm", "64 MiB is little", "--shm-size"},
		{"small shm and NCCL", func(f *Facts) { f.Shm.Size, f.Models[0].TP = 64<<20, 2 }, Warn, "/dev/shm", "NCCL", "--shm-size"},
		{"no shm", func(f *Facts) { f.Shm = Filesystem{Err: errors.New("no such file")} }, Warn, "/dev/shm", "no such file", "--shm-size"},
		{"few files", func(f *Facts) { f.OpenFiles.Hard = 4096 }, Warn, "open files", "limit 4096", "LimitNOFILE"},
		{"hardly any files", func(f *Facts) { f.OpenFiles.Hard = 256 }, Fail, "open files", "limit 256", "LimitNOFILE"},
		{"unknown files", func(f *Facts) { f.OpenFiles = Limit{Err: errors.New("no idea")} }, Warn, "open files", "no idea", "LimitNOFILE"},
		{"memory limit", func(f *Facts) { f.Memory.Limit = 4 * gib }, Warn, "memory", "4.0 GiB is the limit of the control group", "raise the limit"},
		{"memory on the CPU", func(f *Facts) { f.Config.Device, f.Memory.Available = configs.DeviceCPU, 4*gib },
			Fail, "memory", "takes 8.0 GB on the CPU", "smaller model"},
		{"directory", func(f *Facts) { f.Dirs[0].Err, f.Dirs[0].Fix = errors.New("read-only"), "set XDG_RUNTIME_DIR" },
			Fail, "runtime dir", "read-only", "XDG_RUNTIME_DIR"},
		{"long path", func(f *Facts) { f.Socket.Path += strings.Repeat("x", 80) }, Fail, "sockets", "14 bytes too long", "--name"},
		{"container", func(f *Facts) { f.Container = Container{Kind: "docker", Init: "warden"} },
			Warn, "container", "process 1 (warden)", "--init"},
		{"container with an init", func(f *Facts) { f.Container = Container{Kind: "podman", Init: "catatonit"} }, OK, "container", "podman", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := healthy()
			f.Models = append([]Model(nil), f.Models...)
			f.GPU.Inventory.Devices = append([]gpu.Device(nil), f.GPU.Inventory.Devices...)
			tt.change(&f)
			findings := Examine(f)
			var found []Finding
			for _, one := range findings {
				if one.Check == tt.check && one.Mark == tt.mark && strings.Contains(one.Fact, tt.fact) && strings.Contains(one.Fix, tt.fix) {
					found = append(found, one)
				} else if one.Mark != OK {
					t.Errorf("found also %+v", one)
				}
				if (one.Mark == OK) != (one.Fix == "") {
					t.Errorf("%+v: whatever is not ok says what to do, and nothing else does", one)
				}
			}
			if len(found) != 1 {
				t.Errorf("found %d times in %+v", len(found), findings)
			}
			if Failed(findings) != (tt.mark == Fail) {
				t.Errorf("failed = %v", Failed(findings))
			}
		})
	}
}

// Without the driver's library a container is told which flag is missing.
func TestContainerWithoutDriver(t *testing.T) {
	f := healthy()
	f.GPU = GPU{Err: &gpu.NVMLError{Code: gpu.CodeLibraryNotFound, What: "not found", Fix: "install it"}}
	f.Container = Container{Kind: "docker", Init: "tini"}
	got := container(f)
	if len(got) != 1 || got[0].Mark != Warn || !strings.Contains(got[0].Fix, "NVIDIA_DRIVER_CAPABILITIES") {
		t.Errorf("%+v", got)
	}
	f.Config.Device = configs.DeviceCPU
	if got := container(f); got[0].Mark != OK {
		t.Errorf("on the CPU: %+v", got)
	}
}

// A running warden's own port is no failure.
func TestOwnPort(t *testing.T) {
	f := healthy()
	f.Daemon = Daemon{PID: 7}
	f.Port.Err, f.Port.Owner = errors.New("in use"), "pid 7 (warden)"
	if got := port(f); got[0].Mark != OK {
		t.Errorf("%+v", got)
	}
}

func TestOneLineEach(t *testing.T) {
	var out bytes.Buffer
	if err := Print(&out, one("vllm", Fail, "one\n  two", "three\nfour")); err != nil {
		t.Fatal(err)
	}
	if want := "fail  vllm  one two; fix: three four\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

func TestLookAtPort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if p := LookAtPort(address); p.Err == nil || !strings.HasPrefix(p.Owner, "pid ") {
		t.Errorf("taken: %+v", p)
	}
	l.Close()
	if p := LookAtPort(address); p.Err != nil || p.Owner != "" {
		t.Errorf("free: %+v", p)
	}
}

func TestRoomAndWritableOfPathsToCome(t *testing.T) {
	dir := t.TempDir()
	toCome := filepath.Join(dir, "a", "b")
	if free, err := RoomIn(toCome); err != nil || free == 0 {
		t.Errorf("room %d, %v", free, err)
	}
	if err := Writable(toCome); err != nil {
		t.Error(err)
	}
	file := filepath.Join(dir, "file")
	write(t, file, "")
	if err := Writable(file); err == nil {
		t.Error("a file passes for a directory")
	}
	if os.Getuid() != 0 { // root may write anywhere
		if err := os.Chmod(dir, 0o500); err != nil {
			t.Fatal(err)
		}
		if err := Writable(toCome); err == nil {
			t.Error("a directory without write permission passes for writable")
		}
	}
}

func TestLookAtMemory(t *testing.T) {
	const meminfo = "MemTotal:       1000 kB\nMemAvailable:    800 kB\n"
	tests := []struct {
		name  string
		files map[string]string
		want  Memory
	}{
		{"no limit, version 2", map[string]string{"sys/fs/cgroup/memory.max": "max\n"}, Memory{Available: 800 << 10}},
		{"limit, version 2", map[string]string{"sys/fs/cgroup/memory.max": "4096\n"}, Memory{Available: 800 << 10, Limit: 4096}},
		{"no limit, version 1", map[string]string{"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, Memory{Available: 800 << 10}},
		{"limit, version 1", map[string]string{"sys/fs/cgroup/memory/memory.limit_in_bytes": "8192\n"}, Memory{Available: 800 << 10, Limit: 8192}},
	}
	for _, tt := range tests {
		root := t.TempDir()
		write(t, filepath.Join(root, "proc/meminfo"), meminfo)
		for name, content := range tt.files {
			write(t, filepath.Join(root, name), content)
		}
		if got := LookAtMemory(root); got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
	if got := LookAtMemory(t.TempDir()); got != (Memory{}) {
		t.Errorf("of nothing: %+v", got)
	}
}

func TestLookAtContainer(t *testing.T) {
	tests := []struct {
		name  string
		files map[string]string
		env   map[string]string
		want  Container
	}{
		{"none", map[string]string{"proc/1/comm": "systemd\n"}, nil, Container{}},
		{"docker", map[string]string{".dockerenv": "", "proc/1/comm": "tini\n"}, nil, Container{Kind: "docker", Init: "tini"}},
		{"podman", map[string]string{"run/.containerenv": "", "proc/1/comm": "sh\n"}, map[string]string{"container": "podman"}, Container{Kind: "podman", Init: "sh"}},
		{"kubernetes", map[string]string{"proc/1/comm": "pause\n"}, map[string]string{"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, Container{Kind: "kubernetes", Init: "pause"}},
	}
	for _, tt := range tests {
		root := t.TempDir()
		for name, content := range tt.files {
			write(t, filepath.Join(root, name), content)
		}
		got := LookAtContainer(root, func(key string) (string, bool) { v, ok := tt.env[key]; return v, ok })
		if got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

func TestLimitsOfThisMachine(t *testing.T) {
	if l := LookAtOpenFiles(); l.Err != nil || l.Hard == 0 {
		t.Errorf("open files %+v", l)
	}
	if s := LookAtShm(t.TempDir()); s.Err != nil || s.Size == 0 {
		t.Errorf("file system %+v", s)
	}
	if s := LookAtShm("/nowhere"); s.Err == nil {
		t.Error("a file system that is not there")
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestSettings(t *testing.T) {
	f := healthy()
	f.Engines.Models = []plan.Model{{Model: configs.Model{Alias: "m"}}}
	f.Engines.Models[0].Tuned = tune.Decision{
		KVTokens: 36_500, Tier: tune.Tier{Reason: "off: too little"},
		Settings: []tune.Setting{{Flag: "--max-num-seqs", Value: "32", By: tune.ByWarden, Reason: "because"}, {Flag: "--x", By: tune.ByVLLM}},
	}
	want := []Finding{
		{"settings", OK, "m: about 36k KV tokens a replica, 3.0 typical sessions of 15k", ""},
		{"settings", OK, "m: --max-num-seqs 32: because", ""},
		{"kv_offload", OK, "m: no tier in host memory, off: too little", ""},
	}
	if d := cmp.Diff(want, settings(f)); d != "" {
		t.Error(d)
	}
	f.Engines.Models[0].Tuned.Tier = tune.Tier{GiB: 8, Warning: "off: 0.30 repaired it"}
	if got := settings(f); got[2].Mark != Warn || !strings.Contains(got[2].Fact, "against advice") {
		t.Errorf("%+v", got)
	}
	f.Engines.Err = &tune.NoTierError{What: "too large", Fix: "less"}
	if got := settings(f); len(got) != 1 || got[0].Mark != Fail || got[0].Fix != "less" {
		t.Errorf("%+v", got)
	}
}
