package vllm

import (
	"regexp"

	"github.com/lm-warden/warden/supervisor"
)

// cause is one way in which vLLM is known to fail. Submatches of the pattern
// can be used in the texts as $1, $2.
type cause struct {
	pattern     *regexp.Regexp
	cause, fix  string
	permanent   bool // another start without a change fails the same way
	outOfMemory bool // the text is completed by when it happened
}

func (c cause) find(lines []string) (supervisor.Diagnosis, bool) {
	line, m := lastMatch(lines, c.pattern)
	if m == nil {
		return supervisor.Diagnosis{}, false
	}
	expand := func(text string) string {
		at := c.pattern.FindStringSubmatchIndex(line)
		return string(c.pattern.ExpandString(nil, text, line, at))
	}
	return supervisor.Diagnosis{Cause: expand(c.cause), Fix: expand(c.fix), Permanent: c.permanent, Line: line}, true
}

func failure(pattern, what, fix string) cause {
	return cause{pattern: regexp.MustCompile(pattern), cause: what, fix: fix}
}

func permanent(pattern, what, fix string) cause {
	return cause{pattern: regexp.MustCompile(pattern), cause: what, fix: fix, permanent: true}
}

func outOfMemory(pattern, what, fix string) cause {
	return cause{pattern: regexp.MustCompile(pattern), cause: what, fix: fix, permanent: true, outOfMemory: true}
}

// causes, the more telling first: one failure leaves many lines, and the first
// entry found in any of them is the answer. Texts without a version hold for
// 0.24 to 0.32.
var causes = []cause{
	// The command line.
	permanent(`error: argument (\S+): (invalid choice: \S+|expected .*|invalid \S+ value: .*)`,
		"vLLM refuses the argument $1: $2", "correct it in the engine arguments (after -- or in the configuration)"),
	permanent(`error: ambiguous option: (\S+)`, "vLLM finds the argument $1 ambiguous", "write the whole name"),
	permanent(`invalid (tool call|reasoning) parser: (\S+)(.*)`,
		"vLLM knows no $1 parser $2$3", "name one of those in the engine arguments"),

	// GPU memory and what must fit in it.
	failure(`Free memory on device \S* ?\(([\d.]+)/([\d.]+) GiB\) on startup is less than desired GPU memory utilization \(([\d.]+), ([\d.]+) GiB\)`,
		"the GPU has $1 of $2 GiB free and vLLM was to use $4 GiB", "end what uses that GPU (`warden gpus` names it), or pass a lower --gpu-memory-utilization than $3"),
	failure(`Free memory on device .* on startup is less than`,
		"the GPU has less memory free than vLLM was to use", "end what uses that GPU (`warden gpus` names it), or lower --gpu-memory-utilization"),
	permanent(`No available memory for the cache blocks`,
		"the weights leave no room for a KV cache", "use a smaller or quantised model, a larger --tp, or raise --gpu-memory-utilization"),
	permanent(`max seq len \((\d+)\).*\(([\d.]+) GiB KV cache is needed.*memory \(([\d.]+) GiB\).*estimated maximum model length is (\d+)`,
		"a context of $1 tokens does not fit in the KV cache, about $4 tokens do ($2 GiB needed, $3 GiB there)", "pass --max-model-len $4, or leave it out: warden then lets vLLM choose"),
	permanent(`To serve at least one request with the model's max seq len \((\d+)\)`,
		"the KV cache does not hold one request of $1 tokens", "lower --max-model-len, or raise --gpu-memory-utilization"),
	permanent(`User-specified max_model_len \((\d+)\) is greater than the derived max_model_len \(\w+=(\d+)`,
		"the model's context is $2 tokens and $1 were asked for", "pass --max-model-len $2, or leave it out"),
	permanent(`is greater than the derived max_model_len`,
		"the model's context is shorter than --max-model-len asks for", "lower --max-model-len, or leave it out"),
	permanent(`max_num_seqs \((\d+)\) exceeds available Mamba cache blocks \((\d+)\)`,
		"the memory holds the state of $2 requests and $1 were asked for", "pass --max-num-seqs $2 or less"),
	outOfMemory(`CUDA out of memory occurred when warming up (\w+) with (\d+) dummy requests`,
		"CUDA out of memory: the $1 was tried with $2 requests", "lower --max-num-seqs or --gpu-memory-utilization"),
	outOfMemory(`CUDA out of memory\. Tried to allocate ([\d.]+ \w+)\. GPU \d+ has a total capacity of ([\d.]+ \w+) of which ([\d.]+ \w+) is free`,
		"CUDA out of memory: $1 were needed and $3 of $2 were free", "lower --gpu-memory-utilization, --max-num-seqs or --max-model-len"),
	outOfMemory(`CUDA out of memory`, "CUDA out of memory", "lower --gpu-memory-utilization, --max-num-seqs or --max-model-len"),
	failure(`Error in memory profiling`, "another program freed GPU memory while vLLM measured it", "keep other programs off that GPU while replicas start"),
	permanent(`Insufficient space in /dev/shm`, "/dev/shm is too small for the KV cache tier in host memory", "make it larger (mount -o remount,size=…), or lower `kv_offload`"),
	permanent(`CPU Offloading is currently only supported on`, "this vLLM build has no KV cache tier in host memory", "leave --kv-offloading-size out, and `kv_offload` at auto"),

	// CPU build.
	permanent(`Available memory on node (\d+) \(([\d.]+)/([\d.]+) GiB\) .* is less than requested memory for kv \(([\d.]+) GiB\)`,
		"memory node $1 has $2 GiB free and the KV cache was to take $4 GiB", "pass a lower --kv-cache-memory-bytes, or start fewer replicas"),
	permanent(`libnuma\.so\.1: cannot open shared object`, "the library libnuma.so.1 is missing", "install it (Debian and Ubuntu: apt install libnuma1)"),

	// The GPU itself.
	permanent(`Failed to infer device type`, "vLLM sees no device that it was built for", "check `nvidia-smi` and `warden gpus`; without a GPU use --device cpu"),
	permanent(`The NVIDIA driver on your system is too old|CUDA driver version is insufficient`,
		"the NVIDIA driver is too old for this vLLM", "update the driver, or run `warden setup` for a build that fits it"),
	permanent(`no kernel image is available for execution`, "this vLLM has no code for this GPU's generation", "use another vLLM build, or another GPU (--gpus)"),
	permanent(`Bfloat16 is only supported on GPUs with compute capability`, "this GPU is too old for bfloat16", "pass --dtype half"),
	permanent(`World size \((\d+)\) is larger than the number of available GPUs \((\d+)\)`,
		"vLLM sees $2 of the $1 GPUs it was given", "check `nvidia-smi`, and the environment in the configuration for CUDA_VISIBLE_DEVICES"),
	failure(`uncorrectable ECC error`, "the GPU reports an uncorrectable memory error", "reset or replace the GPU (`nvidia-smi -q -d ECC`)"),
	failure(`CUDA error: (an illegal memory access was encountered|unspecified launch failure|device-side assert triggered)`,
		"a CUDA kernel failed: $1", "if it repeats, try another vLLM version or --enforce-eager"),
	failure(`DistBackendError|NCCL error`, "the GPUs of this replica could not talk to each other (NCCL)", "see the log; NCCL_DEBUG=INFO in the configured environment tells more"),

	// The model.
	permanent(`No valid attention backend found for (.+?) with`, "vLLM has no attention code for this model on $1", "change --kv-cache-dtype or --block-size, or use another model"),
	permanent(`Model architectures (\[.*?\]) are not supported for now`, "vLLM does not support the architecture $1", "use a newer vLLM or another model"),
	permanent(`Model architecture (\S+) is not supported in-tree`, "vLLM does not support the architecture $1 any more", "install its plugin, or use another model"),
	permanent(`failed to be inspected`, "vLLM could not inspect the model's architecture", "read the error above that line in the log: it hides an import or device error"),
	permanent(`attention heads \((\d+)\) must be divisible by tensor parallel size \((\d+)\)`, "$1 attention heads cannot be shared by $2 GPUs", "choose a --tp that divides $1"),
	permanent("the\\s+`--trust-remote-code` flag|requires you to execute the (configuration|tokenizer) file|contains custom code which must be executed",
		"the model brings code of its own", "pass --trust-remote-code if you trust its authors"),
	permanent(`GatedRepoError|[Gg]ated repo|403 Client Error`, "access to the model is restricted", "accept its terms on huggingface.co, then set HF_TOKEN"),
	permanent(`401 Client Error|Invalid user token`, "Hugging Face refuses access to the model (401)", "check its name, and set HF_TOKEN if it is private"),
	permanent(`RepositoryNotFoundError|Repository Not Found|404 Client Error`, "Hugging Face knows no such model", "check the name; `warden models` lists known ones"),
	permanent(`RevisionNotFoundError|Revision Not Found|is not a valid git identifier`, "the model has no such revision", "check --revision"),
	failure(`429 Client Error`, "Hugging Face refuses for now: too many requests (429)", "set HF_TOKEN, or wait"),
	permanent(`LocalEntryNotFoundError|[Cc]annot find the requested files in the (local|disk) cache`,
		"the model is not on this disk and the engine is offline", "unset HF_HUB_OFFLINE in the configured environment, or download it"),
	failure(`[Ww]e couldn't connect to|couldn't connect to 'https://huggingface|MaxRetryError|NameResolutionError`,
		"Hugging Face cannot be reached and the model is not on this disk", "check the network or the proxy variables"),
	permanent(`Can't load tokenizer|Couldn't instantiate the backend tokenizer`, "the model's tokenizer cannot be loaded", "check the repository for tokenizer files, or pass --tokenizer"),
	permanent("Cannot find any model weights with `([^`]+)`", "there are no weights in $1", "check the repository, or pass --load-format"),
	permanent(`Invalid repository ID or local directory specified: '?([^']*)'?`, "$1 is neither a model on Hugging Face nor a directory with one", "check the name; `warden models` lists known ones"),

	// The machine.
	permanent(`No space left on device`, "a disk is full", "free room where Hugging Face's cache, vLLM's cache and /tmp are"),
	permanent(`Could not find nvcc|No such file or directory: '(?:\S*/)?(nvcc|ninja|g\+\+|gcc)'`, "a compiler that vLLM's kernels need is missing $1", "install it, or run `warden setup` for an installation that is whole"),
	permanent(`ModuleNotFoundError: No module named '([^']+)'`, "the vLLM installation lacks the Python module $1", "repair it, or let warden make one: `warden setup`"),
	permanent(`(\S+\.so[.\d]*): cannot open shared object file`, "the vLLM installation does not find the library $1", "repair it, or let warden make one: `warden setup`"),
	failure(`\[Errno 98\]|[Aa]ddress already in use`, "the engine's address is taken: another process listens there", "end it; warden tries again"),
	// Anchored: a healthy start quotes this error in a warning about the limit.
	failure(`(?:^|\] )OSError: \[Errno 24\]`, "vLLM may not open more files", "raise the limit (ulimit -n 65536)"),
	failure(`Failed core proc\(s\): \{[^}]*: -9\b`, "the engine process was killed, most often because the machine ran out of memory",
		"look for \"Out of memory\" in `dmesg`; fewer replicas or a smaller model need less"),
	failure(`Failed core proc\(s\): \{[^}]*: -11\b`, "the engine process crashed (SIGSEGV)", "see the log; if it repeats, try another vLLM version"),
	failure(`Timed out waiting for engine core processes to start`, "the engine process took too long to start", "set VLLM_ENGINE_READY_TIMEOUT_S in the configured environment"),
	failure(`engine core exited unexpectedly|EngineDeadError`, "the engine process ended unexpectedly",
		"see the log above that line; when it says nothing, the process was killed: look for \"Out of memory\" in `dmesg`"),
	failure(`Worker proc \S+ died unexpectedly|Engine core proc(?:ess)? \S+ died unexpectedly|died unexpectedly, shutting down`,
		"a process of the engine was killed or crashed", "look for \"Out of memory\" in `dmesg`, and in the log above that line"),
}
