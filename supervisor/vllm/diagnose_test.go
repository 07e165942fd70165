package vllm

import (
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/lm-warden/warden/supervisor"
)

func TestDiagnoseCapturedRuns(t *testing.T) {
	for name, tc := range map[string]struct {
		exit       supervisor.Exit
		cause, fix string
		permanent  bool
	}{
		"inuse":   {exit: supervisor.Exit{Code: 1}, cause: "the engine's address is taken", fix: "warden tries again"},
		"badflag": {exit: supervisor.Exit{Code: 2}, cause: "does not know the argument --no-such-flag --other", fix: "remove it", permanent: true},
		"context": {exit: supervisor.Exit{Code: 1}, permanent: true,
			cause: "a context of 16384 tokens does not fit in the KV cache, about 9984 tokens do", fix: "--max-model-len 9984"},
		"derived": {exit: supervisor.Exit{Code: 1}, permanent: true,
			cause: "the model's context is 32768 tokens and 65536 were asked for", fix: "--max-model-len 32768"},
		"offload": {exit: supervisor.Exit{Code: 1}, permanent: true,
			cause: "this vLLM build has no KV cache tier in host memory", fix: "`kv_offload` at auto"},
		"killcore": {exit: supervisor.Exit{Code: 0}, cause: "the engine process ended unexpectedly", fix: "log"},
		// A healthy run that was ended from outside must not be explained by the
		// warnings that every start prints.
		"cold": {exit: supervisor.Exit{Signal: syscall.SIGKILL}, cause: "was killed (SIGKILL)", fix: "dmesg"},
	} {
		t.Run(name, func(t *testing.T) {
			lines := logLines(t, "0.32.0-cpu/"+name+".log")
			if len(lines) > 200 { // what the supervisor keeps
				lines = lines[len(lines)-200:]
			}
			d := New(Install{Version: "0.32.0+cpu"}, Options{}).Diagnose(lines, tc.exit)
			if !strings.Contains(d.Cause, tc.cause) || !strings.Contains(d.Fix, tc.fix) || d.Permanent != tc.permanent {
				t.Errorf("diagnosis = %+v", d)
			}
			if d.Line != "" && !slices.Contains(lines, d.Line) {
				t.Errorf("line %q is not in the log", d.Line)
			}
		})
	}
}

// TestDiagnoseLines holds one line for every entry of the table: each must be
// answered by its own entry and by no earlier one.
func TestDiagnoseLines(t *testing.T) {
	const core = "(EngineCore pid=7) ERROR 11-30 14:15:41 [core.py:1510] "
	reached := make([]bool, len(causes))
	for _, tc := range []struct {
		line, cause string
		permanent   bool
	}{
		{"vllm serve: error: argument --dtype: invalid choice: 'int3' (choose from 'auto', 'half')", "refuses the argument --dtype: invalid choice: 'int3'", true},
		{"vllm: error: argument --port: expected one argument", "refuses the argument --port: expected one argument", true},
		{"vllm: error: argument --max-num-seqs: invalid int value: 'many'", "invalid int value: 'many'", true},
		{"vllm: error: ambiguous option: --max could match --max-model-len, --max-num-seqs", "the argument --max ambiguous", true},
		{"KeyError: 'invalid tool call parser: herms (chose from { hermes,qwen3 })'", "no tool call parser herms (chose from { hermes,qwen3 }", true},
		{"KeyError: 'invalid reasoning parser: q (chose from { qwen3 })'", "no reasoning parser q", true},
		{core + "ValueError: Free memory on device cuda:0 (4.5/15.7 GiB) on startup is less than desired GPU memory utilization (0.92, 14.44 GiB). Decrease GPU memory", "the GPU has 4.5 of 15.7 GiB free and vLLM was to use 14.44 GiB", false},
		{core + "ValueError: Free memory on device cuda:0 (4.5/15.7 GiB) on startup is less than the engine's budget after", "less memory free than vLLM was to use", false},
		{core + "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`", "no room for a KV cache", true},
		{core + "ValueError: To serve at least one request with the model's max seq len (40960), (5.62 GiB KV cache is needed, which is larger than the available KV cache memory (5.1 GiB). Based on the available memory, the estimated maximum model length is 37120. Try", "context of 40960 tokens does not fit in the KV cache, about 37120 tokens do (5.62 GiB needed, 5.1 GiB there)", true},
		{core + "ValueError: To serve at least one request with the model's max seq len (40960), (5.62 GiB KV cache is needed, which is larger than the available KV cache memory (0.0 GiB). Try", "does not hold one request of 40960 tokens", true},
		{"  Value error, User-specified max_model_len (99999) is greater than the derived max_model_len (max_position_embeddings=40960 or model_max_length=None in model's config.json).", "the model's context is 40960 tokens and 99999 were asked for", true},
		{"User-specified max_model_len is greater than the derived max_model_len", "shorter than --max-model-len", true},
		{core + "ValueError: max_num_seqs (256) exceeds available Mamba cache blocks (113). Each decode", "the state of 113 requests and 256 were asked for", true},
		{core + "RuntimeError: CUDA out of memory occurred when warming up sampler with 1024 dummy requests. Please", "CUDA out of memory: the sampler was tried with 1024 requests", true},
		{core + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.16 GiB. GPU 0 has a total capacity of 15.70 GiB of which 412.00 MiB is free. Process 1", "CUDA out of memory: 1.16 GiB were needed and 412.00 MiB of 15.70 GiB were free", true},
		{core + "torch.OutOfMemoryError: CUDA out of memory.", "CUDA out of memory", true},
		{core + "AssertionError: Error in memory profiling. Initial free memory 9.1 GiB, current free memory 10 GiB", "another program freed GPU memory", false},
		{core + "RuntimeError: Insufficient space in /dev/shm for CPU KV offload shared region", "/dev/shm is too small", true},
		{"(Worker pid=5825) ERROR 11-30 17:03:23 [multiproc_executor.py:1063] Exception: CPU Offloading is currently only supported on CUDA-alike and XPU GPUs", "no KV cache tier in host memory", true},
		{core + "ValueError: Available memory on node 0 (3.1/15.5 GiB) on kv cache allocation is less than requested memory for kv (4.0 GiB). Decrease", "memory node 0 has 3.1 GiB free and the KV cache was to take 4.0 GiB", true},
		{"ImportError: libnuma.so.1: cannot open shared object file: No such file or directory", "libnuma.so.1 is missing", true},
		{"RuntimeError: Failed to infer device type, please set the environment variable", "sees no device", true},
		{"RuntimeError: The NVIDIA driver on your system is too old (found version 12080).", "driver is too old", true},
		{"RuntimeError: CUDA error: no kernel image is available for execution on the device", "no code for this GPU's generation", true},
		{"ValueError: Bfloat16 is only supported on GPUs with compute capability of at least 8.0. Your Tesla T4", "too old for bfloat16", true},
		{"ValueError: World size (4) is larger than the number of available GPUs (1) in this node.", "sees 1 of the 4 GPUs", true},
		{"torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered", "uncorrectable memory error", false},
		{"torch.AcceleratorError: CUDA error: an illegal memory access was encountered", "a CUDA kernel failed: an illegal memory access", false},
		{"torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:94, unhandled cuda error", "could not talk to each other", false},
		{"ValueError: No valid attention backend found for cuda with AttentionSelectorConfig(head_size=80). Reasons", "no attention code for this model on cuda", true},
		{"ValueError: Model architectures ['FooForCausalLM'] are not supported for now. Supported architectures: dict_keys(['A', 'B'])", "does not support the architecture ['FooForCausalLM']", true},
		{"ValueError: Model architecture FooForCausalLM is not supported in-tree anymore.", "architecture FooForCausalLM any more", true},
		{"ValueError: Model architectures ['Foo'] failed to be inspected. Please check the logs for more details.", "could not inspect", true},
		{"Value error, Total number of attention heads (32) must be divisible by tensor parallel size (3).", "32 attention heads cannot be shared by 3 GPUs", true},
		{"RuntimeError: Failed to load the model config. If the model is a custom model not yet available in the HuggingFace transformers library, consider setting `trust_remote_code=True` in LLM or using the `--trust-remote-code` flag in the CLI.", "code of its own", true},
		{"huggingface_hub.errors.GatedRepoError: 401 Client Error. (Request ID: x)", "access to the model is restricted", true},
		{"requests.exceptions.HTTPError: 401 Client Error: Unauthorized for url", "refuses access", true},
		{"huggingface_hub.errors.RepositoryNotFoundError: 404 Client Error.", "knows no such model", true},
		{"huggingface_hub.errors.RevisionNotFoundError: x", "no such revision", true},
		{"huggingface_hub.errors.HfHubHTTPError: 429 Client Error: Too Many Requests", "too many requests", false},
		{"huggingface_hub.errors.LocalEntryNotFoundError: Cannot find an appropriate cached snapshot folder", "not on this disk and the engine is offline", true},
		{"OSError: We couldn't connect to 'https://huggingface.co' to load the files, and couldn't find them in the cached files.", "cannot be reached", false},
		{"OSError: Can't load tokenizer for 'x/y'. If you were trying to load it", "tokenizer cannot be loaded", true},
		{"RuntimeError: Cannot find any model weights with `/models/empty`", "no weights in /models/empty", true},
		{"ValueError: Invalid repository ID or local directory specified: 'qwen'.", "qwen is neither a model on Hugging Face nor a directory", true},
		{"OSError: [Errno 28] No space left on device", "a disk is full", true},
		{"FileNotFoundError: [Errno 2] No such file or directory: 'ninja'", "a compiler that vLLM's kernels need is missing ninja", true},
		{"ModuleNotFoundError: No module named 'flashinfer'", "lacks the Python module flashinfer", true},
		{"ImportError: libcudart.so.13: cannot open shared object file: No such file or directory", "does not find the library libcudart.so.13", true},
		{"OSError: [Errno 98] Address already in use", "address is taken", false},
		{"OSError: [Errno 24] Too many open files", "may not open more files", false},
		{"RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore_DP0': -9}", "the engine process was killed", false},
		{"RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore': -11}", "crashed (SIGSEGV)", false},
		{"TimeoutError: Timed out waiting for engine core processes to start.", "took too long to start", false},
		{"(APIServer pid=388) WARNING 11-30 14:20:33 [core_client.py:817] [shutdown] MPClient: engine core exited unexpectedly; starting cleanup", "the engine process ended unexpectedly", false},
		{core + "Worker proc VllmWorker-1 died unexpectedly (exit code: -9), shutting down executor.", "a process of the engine was killed or crashed", false},
	} {
		e := New(Install{Version: "0.32.0"}, Options{})
		d := e.Diagnose([]string{"some line before", tc.line, "and one after"}, supervisor.Exit{Code: 1})
		if !strings.Contains(d.Cause, tc.cause) || d.Permanent != tc.permanent || d.Line != tc.line || d.Fix == "" {
			t.Errorf("%q\n  gives %+v\n  want  %q, permanent %v", tc.line, d, tc.cause, tc.permanent)
		}
		if strings.Contains(d.Cause+d.Fix, "$") {
			t.Errorf("%q: a number was not filled in: %+v", tc.line, d)
		}
		if i := slices.IndexFunc(causes, func(c cause) bool { return c.pattern.MatchString(tc.line) }); i >= 0 {
			reached[i] = true
		}
	}
	for i, ok := range reached {
		if !ok {
			t.Errorf("no line above is answered by %v", causes[i].pattern)
		}
	}
}

// TestCausesAreWellFormed: numbers that a text uses are in its pattern, and
// every entry says what to do.
func TestCausesAreWellFormed(t *testing.T) {
	reference := regexp.MustCompile(`\$(\d)`)
	for _, c := range causes {
		for _, text := range []string{c.cause, c.fix} {
			for _, m := range reference.FindAllStringSubmatch(text, -1) {
				if n := int(m[1][0] - '0'); n > c.pattern.NumSubexp() {
					t.Errorf("%v: text %q uses $%d", c.pattern, text, n)
				}
			}
		}
		if c.cause == "" || c.fix == "" || strings.HasSuffix(c.cause, ".") {
			t.Errorf("%v: cause %q, fix %q", c.pattern, c.cause, c.fix)
		}
	}
}

func TestDiagnoseRefusedFlagIsLeftOutNextTime(t *testing.T) {
	e := New(Install{Argv: []string{"/v/bin/vllm"}, Version: "0.35.0"}, Options{Environ: []string{}})
	spec := supervisor.Spec{ID: "r0", Model: "m", Repo: "/models/m", Address: "unix:/run/r0.sock"}
	lines := []string{"usage: vllm [-h]", "vllm: error: unrecognized arguments: --disable-access-log-for-endpoints /health,/metrics"}
	before, err := e.Command(spec)
	if err != nil || !slices.Contains(before.Argv, "--disable-access-log-for-endpoints") {
		t.Fatalf("argv = %q, %v", before.Argv, err)
	}
	d := e.Diagnose(lines, supervisor.Exit{Code: 2})
	if d.Permanent || !strings.Contains(d.Cause, "vLLM 0.35.0 does not know --disable-access-log-for-endpoints") {
		t.Errorf("diagnosis = %+v", d)
	}
	after, err := e.Command(spec)
	if err != nil || slices.Contains(after.Argv, "--disable-access-log-for-endpoints") || slices.Contains(after.Argv, quietPaths) {
		t.Errorf("argv = %q, %v", after.Argv, err)
	}
	if !slices.Contains(after.Argv, "--enable-prompt-tokens-details") {
		t.Error("a flag that was not refused is gone too")
	}
	// Together with one of the user's, the user has to act.
	d = e.Diagnose([]string{"vllm: error: unrecognized arguments: --enable-prompt-tokens-details --mine=1"}, supervisor.Exit{Code: 2})
	if !d.Permanent || !strings.Contains(d.Cause, "the argument --mine=1") {
		t.Errorf("diagnosis = %+v", d)
	}
	if got := e.Refused(); len(got) != 2 {
		t.Errorf("refused = %q", got)
	}
}

func TestDiagnoseSaysWhenMemoryRanOut(t *testing.T) {
	const oom = "torch.OutOfMemoryError: CUDA out of memory."
	for before, want := range map[string]struct {
		cause     string
		permanent bool
	}{
		"Capturing CUDA graphs (decode, FULL):  80%|██| 41/51 [": {"CUDA out of memory while capturing graphs", true},
		"Starting to load model x...":                            {"CUDA out of memory while loading the weights", true},
		"INFO:     Application startup complete.":                {"CUDA out of memory while serving", false},
		"": {"CUDA out of memory", true},
	} {
		d := New(Install{}, Options{}).Diagnose([]string{before, oom}, supervisor.Exit{Code: 1})
		if d.Cause != want.cause || d.Permanent != want.permanent {
			t.Errorf("after %q: %+v", before, d)
		}
	}
}

func TestDiagnoseUnknown(t *testing.T) {
	e := New(Install{}, Options{})
	for _, tc := range []struct {
		lines []string
		exit  supervisor.Exit
		want  string
	}{
		{nil, supervisor.Exit{Code: 1}, "vLLM ended with status 1 and said nothing about it"},
		{nil, supervisor.Exit{Code: 0}, "vLLM ended by itself with status 0"},
		{nil, supervisor.Exit{Signal: syscall.SIGKILL}, "most often because the machine ran out of memory"},
		{nil, supervisor.Exit{Signal: syscall.SIGSEGV}, "vLLM crashed (SIGSEGV)"},
		{nil, supervisor.Exit{Signal: syscall.SIGTERM}, "somebody else than warden ended vLLM (SIGTERM)"},
		{nil, supervisor.Exit{Signal: syscall.SIGUSR1}, "vLLM ended by signal 10 and said nothing about it"},
		{[]string{
			"(EngineCore pid=7) ERROR 11-30 14:15:41 [core.py:1510] ValueError: something new",
			"RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",
			"  warnings.warn('resource_tracker')",
		}, supervisor.Exit{Code: 1}, "ValueError: something new"},
		{[]string{"(APIServer pid=7) ERROR 11-30 14:15:41 [x.py:1] it broke", "INFO:     Shutting down"}, supervisor.Exit{Code: 1}, "it broke"},
		{[]string{"SystemExit"}, supervisor.Exit{Code: 1}, "SystemExit"},
	} {
		if d := e.Diagnose(tc.lines, tc.exit); !strings.Contains(d.Cause, tc.want) || d.Permanent {
			t.Errorf("Diagnose(%q, %+v) = %+v, want %q", tc.lines, tc.exit, d, tc.want)
		}
	}
}

func FuzzDiagnose(f *testing.F) {
	f.Add(strings.Join(logLines(f, "0.32.0-cpu/context.log"), "\n"), 1)
	f.Add("vllm: error: unrecognized arguments: --enable-prompt-tokens-details", 2)
	f.Add("vllm: error: unrecognized arguments: ", 2)
	f.Add(strings.Repeat("\xffError: ", 200), 1)
	f.Fuzz(func(t *testing.T, log string, code int) {
		d := New(Install{}, Options{Environ: []string{}}).Diagnose(strings.Split(log, "\n"), supervisor.Exit{Code: code})
		if d.Cause == "" {
			t.Error("no cause")
		}
	})
}
