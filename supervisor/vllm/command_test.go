package vllm

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lm-warden/warden/supervisor"
	"github.com/lm-warden/warden/supervisor/vllm/tiny"
)

func TestCommandArgv(t *testing.T) {
	gpu := supervisor.Spec{
		ID: "r0", Model: "qwen3-4b", Repo: "Qwen/Qwen3-4B", ServedNames: []string{"qwen3-4b", "Qwen/Qwen3-4B"},
		TP: 2, Device: supervisor.DeviceCUDA, Address: "unix:/run/warden/r0.sock", MaxNumSeqs: 32,
	}
	const (
		head = "/v/bin/vllm serve Qwen/Qwen3-4B --served-model-name qwen3-4b Qwen/Qwen3-4B --uds /run/warden/r0.sock --tensor-parallel-size 2"
		tail = " --enable-prompt-tokens-details --disable-access-log-for-endpoints /health,/metrics,/version,/v1/models"
	)
	for name, tc := range map[string]struct {
		change func(*supervisor.Spec)
		want   string
	}{
		"gpu": {func(*supervisor.Spec) {}, head + " --max-num-seqs 32 --max-model-len auto" + tail},
		"the user's arguments last": {
			func(s *supervisor.Spec) {
				s.Args = []string{"--max-num-seqs=64", "--max_model_len", "16k", "--seed", "1"}
			},
			head + tail + " --max-num-seqs=64 --max_model_len 16k --seed 1",
		},
		"no access log at all": {
			func(s *supervisor.Spec) { s.Args = []string{"--disable-uvicorn-access-log"} },
			head + " --max-num-seqs 32 --max-model-len auto --enable-prompt-tokens-details --disable-uvicorn-access-log",
		},
		"tcp, one name, no batch size": {
			func(s *supervisor.Spec) {
				s.Address, s.ServedNames, s.TP, s.MaxNumSeqs = "http://127.0.0.1:8101", nil, 0, 0
			},
			"/v/bin/vllm serve Qwen/Qwen3-4B --served-model-name qwen3-4b --host 127.0.0.1 --port 8101 --tensor-parallel-size 1 --max-model-len auto" + tail,
		},
		"cpu": {
			func(s *supervisor.Spec) { s.Device, s.TP = supervisor.DeviceCPU, 1 },
			strings.Replace(head, "size 2", "size 1", 1) + " --max-num-seqs 32 --max-model-len auto" + tail + " --enforce-eager --kv-cache-memory-bytes 4G",
		},
		"cpu with its own sizes": {
			func(s *supervisor.Spec) {
				s.Device, s.TP = supervisor.DeviceCPU, 1
				s.Args = []string{"-O3", "--kv-cache-memory-bytes", "64M"}
			},
			strings.Replace(head, "size 2", "size 1", 1) + " --max-num-seqs 32 --max-model-len auto" + tail + " -O3 --kv-cache-memory-bytes 64M",
		},
		"cpu with KV space from the environment": {
			func(s *supervisor.Spec) {
				s.Device, s.TP, s.Env = supervisor.DeviceCPU, 1, []string{"VLLM_CPU_KVCACHE_SPACE=8"}
			},
			strings.Replace(head, "size 2", "size 1", 1) + " --max-num-seqs 32 --max-model-len auto" + tail + " --enforce-eager",
		},
	} {
		t.Run(name, func(t *testing.T) {
			spec := gpu
			tc.change(&spec)
			e := New(Install{Argv: []string{"/v/bin/vllm"}, Version: "0.32.0"}, Options{Environ: []string{}})
			got, err := e.Command(spec)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.want, strings.Join(got.Argv, " ")); d != "" {
				t.Error(d)
			}
			if got.Dir != "" {
				t.Errorf("Dir = %q, want the supervisor's private one", got.Dir)
			}
		})
	}
}

func TestCommandRefuses(t *testing.T) {
	good := supervisor.Spec{ID: "r0", Model: "m", Repo: "o/m", Address: "unix:/run/r0.sock"}
	e := New(Install{Argv: []string{"/v/bin/vllm"}}, Options{Environ: []string{}})
	if _, err := e.Command(good); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		change func(*supervisor.Spec)
		want   string
	}{
		"no repository":      {func(s *supervisor.Spec) { s.Repo = "" }, "is no model"},
		"a flag as model":    {func(s *supervisor.Spec) { s.Repo = "--help" }, "is no model"},
		"a flag as name":     {func(s *supervisor.Spec) { s.ServedNames = []string{"m", "--port"} }, "cannot be a served model name"},
		"no name":            {func(s *supervisor.Spec) { s.Model = "" }, "cannot be a served model name"},
		"owned flag":         {func(s *supervisor.Spec) { s.Args = []string{"--port", "1"} }, "use warden's --listen"},
		"no address":         {func(s *supervisor.Spec) { s.Address = "" }, "is not an address"},
		"relative socket":    {func(s *supervisor.Spec) { s.Address = "unix:r0.sock" }, "at most 107 bytes"},
		"long socket":        {func(s *supervisor.Spec) { s.Address = "unix:/" + strings.Repeat("x", 107) }, "at most 107 bytes"},
		"address with path":  {func(s *supervisor.Spec) { s.Address = "http://127.0.0.1:1/v1" }, "is not an address"},
		"address of no port": {func(s *supervisor.Spec) { s.Address = "http://127.0.0.1" }, "is not an address"},
		"TLS":                {func(s *supervisor.Spec) { s.Address = "https://127.0.0.1:1" }, "is not an address"},
	} {
		spec := good
		tc.change(&spec)
		if _, err := e.Command(spec); err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "r0") {
			t.Errorf("%s: err = %v, want %q", name, err, tc.want)
		}
	}
	if _, err := New(Install{}, Options{}).Command(good); err == nil {
		t.Error("an installation without a command starts")
	}
}

func TestCommandEnvironment(t *testing.T) {
	shell := []string{
		"PATH=/usr/bin", "HOME=/home/u", "LANG=C.UTF-8", "HF_HOME=/hf", "HF_TOKEN=secret", "HTTPS_PROXY=http://p:1",
		"AWS_SECRET_ACCESS_KEY=x", "VLLM_PORT=5", "VLLM_API_KEY=x", "VLLM_SERVER_DEV_MODE=1", "PROMETHEUS_MULTIPROC_DIR=/x",
		"VLLM_CONFIGURE_LOGGING=0", "VLLM_USE_RUST_FRONTEND=1", "PYTHONPATH=/x", "CUDA_VISIBLE_DEVICES=7", "LD_PRELOAD=/x.so",
	}
	fixed := []string{
		"DO_NOT_TRACK=1", "HF_HOME=/hf", "HOME=/home/u", "LANG=C.UTF-8", "NO_COLOR=1", "PATH=/v/bin:/usr/bin",
		"PYTHONUNBUFFERED=1", "VLLM_HOST_IP=127.0.0.1", "VLLM_HTTP_TIMEOUT_KEEP_ALIVE=120", "VLLM_NO_USAGE_STATS=1", "VLLM_USE_RUST_FRONTEND=0",
	}
	for name, tc := range map[string]struct {
		spec    supervisor.Spec
		version string
		device  string // of the installation
		want    []string
	}{
		"weights to be downloaded": {
			spec: supervisor.Spec{Repo: "o/m", Device: supervisor.DeviceCUDA, Env: []string{"CUDA_DEVICE_ORDER=PCI_BUS_ID", "CUDA_VISIBLE_DEVICES=1"}},
			want: append(slices.Clone(fixed), "CUDA_DEVICE_ORDER=PCI_BUS_ID", "CUDA_VISIBLE_DEVICES=1", "HF_TOKEN=secret", "HTTPS_PROXY=http://p:1"),
		},
		"weights on disk": {
			spec: supervisor.Spec{Repo: "/models/m", Device: supervisor.DeviceCUDA},
			want: append(slices.Clone(fixed), "HF_HUB_OFFLINE=1"),
		},
		"cpu": {
			spec: supervisor.Spec{Repo: "/models/m", Device: supervisor.DeviceCPU, CPUs: []int{2, 3}},
			want: append(slices.Clone(fixed), "HF_HUB_OFFLINE=1", "OMP_NUM_THREADS=2", "VLLM_CPU_OMP_THREADS_BIND=nobind"),
		},
		"the configuration has the last word": {
			spec: supervisor.Spec{Repo: "/models/m", Env: []string{"HF_HUB_OFFLINE=0", "NO_COLOR=0", "HF_TOKEN=mine", "broken", "=x"}},
			want: append(slices.DeleteFunc(slices.Clone(fixed), func(s string) bool { return s == "NO_COLOR=1" }),
				"HF_HUB_OFFLINE=0", "HF_TOKEN=mine", "HTTPS_PROXY=http://p:1", "NO_COLOR=0"),
		},
		"a version that does not know the frontend": {
			spec:    supervisor.Spec{Repo: "/models/m"},
			version: "0.25.1",
			want: append(slices.DeleteFunc(slices.Clone(fixed), func(s string) bool { return strings.Contains(s, "RUST") }),
				"HF_HUB_OFFLINE=1"),
		},
		"simulated": {
			spec:   supervisor.Spec{Repo: "o/m", Device: supervisor.DeviceSimulated},
			device: supervisor.DeviceSimulated,
			want: append(slices.DeleteFunc(slices.Clone(fixed), func(s string) bool { return strings.HasPrefix(s, "PATH=") }),
				"HF_HUB_OFFLINE=1", "PATH=/usr/bin"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.version == "" {
				tc.version = "0.32.0"
			}
			e := New(Install{Argv: []string{"/v/bin/vllm"}, Version: tc.version, Device: tc.device}, Options{Environ: shell})
			tc.spec.Model, tc.spec.Address = "m", "unix:/run/r0.sock"
			got, err := e.Command(tc.spec)
			if err != nil {
				t.Fatal(err)
			}
			slices.Sort(tc.want)
			if d := cmp.Diff(tc.want, got.Env); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestCommandWithoutPath(t *testing.T) {
	e := New(Install{Argv: []string{"/v/bin/vllm"}}, Options{Environ: []string{}})
	got, err := e.Command(supervisor.Spec{Model: "m", Repo: "/m", Address: "unix:/run/r0.sock"})
	if err != nil || !slices.Contains(got.Env, "PATH=/v/bin:"+defaultPath) {
		t.Errorf("env = %q, %v", got.Env, err)
	}
}

func TestCheckArgs(t *testing.T) {
	for _, ok := range [][]string{
		nil,
		{"--max-num-seqs", "64", "--kv-cache-dtype=fp8", "-O3", "--seed", "-1"},
		{"--model-loader-extra-config", "{}", "--model-impl", "auto", "--tokenizer", "--port"[2:]},
		{"--device-memory-utilization", "0.8", "--kv-transfer-config.kv_port", "14579"},
		{"-cc", "{}", "-q", "awq", "--", "x"},
		tiny.Args(),
		tiny.HeavyArgs(),
	} {
		if err := CheckArgs(ok); err != nil {
			t.Errorf("CheckArgs(%q) = %v", ok, err)
		}
	}
	for arg, instead := range map[string]string{
		"--port": "--listen", "--host=0.0.0.0": "--listen", "--uds": "--listen", "--api-server-count=2": "--listen",
		"--model": "--model", "--served_model_name": "aliases", "--api-key": "own keys", "--ssl-keyfile": "TLS",
		"-tp": "--tp", "-tp=2": "--tp", "--tensor-parallel-size=2": "--tp", "--tensor_parallel_size": "--tp", "--tensor": "--tp",
		"-dp": "--dp", "--data-parallel-size": "--dp", "--data_parallel_rank=1": "--dp", "-pp": "--tp", "--pipeline-par": "--tp",
		"--device-ids": "--gpus", "--headless": "one machine", "--nnodes": "one machine", "-n": "one machine", "--disable-log-stats": "metrics",
		"--root-path": "paths",
	} {
		err := CheckArgs([]string{"--seed", "1", arg})
		if err == nil || !strings.Contains(err.Error(), instead) || !strings.HasPrefix(err.Error(), arg) {
			t.Errorf("CheckArgs(%q) = %v, want %q", arg, err, instead)
		}
	}
}

func FuzzCheckArgs(f *testing.F) {
	f.Add("--port=1")
	f.Add("-")
	f.Add("--")
	f.Add("--kv-transfer-config.a.b=1")
	f.Fuzz(func(t *testing.T, arg string) {
		name, isFlag := flagName(arg)
		if isFlag && (name == "" || !strings.HasPrefix(name, "-") || strings.Contains(name, "=")) {
			t.Errorf("flagName(%q) = %q", arg, name)
		}
		if !isFlag && CheckArgs([]string{arg}) != nil {
			t.Errorf("the value %q is refused", arg)
		}
	})
}

// What warden has chosen for the work goes before the user's arguments, is left
// out where the user passes it too, and, once refused, from the next start.
func TestChosenSettings(t *testing.T) {
	const transfer = `{"kv_load_failure_policy":"recompute"}`
	e := New(Install{Argv: []string{"vllm"}, Version: "0.41.0"}, Options{
		Environ:  []string{},
		Settings: [][]string{{"--scheduling-policy", "priority"}, {"--kv-offloading-size", "16"}, {"--kv-transfer-config", transfer}},
	})
	spec := supervisor.Spec{ID: "r0", Model: "m", Repo: "a/m", Device: supervisor.DeviceCUDA, Address: "unix:/r0.sock"}
	chosen := func(userArgs ...string) string {
		t.Helper()
		spec.Args = userArgs
		c, err := e.Command(spec)
		if err != nil {
			t.Fatal(err)
		}
		all := strings.Join(c.Argv, " ")
		_, tail, found := strings.Cut(all, quietPaths+" ")
		if !found && !strings.HasSuffix(all, quietPaths) {
			t.Fatalf("argv %s", all)
		}
		return tail
	}
	if got := chosen(); got != "--scheduling-policy priority --kv-offloading-size 16 --kv-transfer-config "+transfer {
		t.Errorf("chosen %q", got)
	}
	if got := chosen("--scheduling_policy=fcfs", "--kv-transfer-config.kv_connector", "X"); got != "--kv-offloading-size 16 --scheduling_policy=fcfs --kv-transfer-config.kv_connector X" {
		t.Errorf("beside the user's own: %q", got)
	}
	line := "vllm: error: unrecognized arguments: --kv-offloading-size 16 --kv-transfer-config " + transfer
	if d := e.Diagnose([]string{line}, supervisor.Exit{Code: 2}); d.Permanent || !strings.Contains(d.Fix, "starts it again without") {
		t.Errorf("refused: %+v", d)
	}
	if got := chosen(); got != "--scheduling-policy priority" {
		t.Errorf("after the refusal: %q", got)
	}
}

func TestArgument(t *testing.T) {
	args := []string{"--a=1", "--a", "2", "--b_c", "x", "--d.key", "v", "--last"}
	for flag, want := range map[string]string{"--a": "2 true", "--b-c": "x true", "--d": " true", "--last": " true", "--e": " false"} {
		v, found := Argument(args, flag)
		if got := v + " " + map[bool]string{true: "true", false: "false"}[found]; got != want {
			t.Errorf("%s: %q, want %q", flag, got, want)
		}
	}
}
