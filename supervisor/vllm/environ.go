package vllm

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/lm-warden/warden/supervisor"
)

// inherited are the variables that an engine gets from warden's environment.
// Everything else stays out: secrets of other programs, and variables that
// change vLLM behind warden's back (VLLM_PORT makes replicas collide,
// PROMETHEUS_MULTIPROC_DIR mixes their metrics, VLLM_API_KEY locks warden out,
// VLLM_SERVER_DEV_MODE opens dangerous endpoints). Who wants one of those for
// the engines says so in the configuration, and Spec.Env carries it.
var inherited = []string{
	"PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR",
	"LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH",
	"XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME",
	"HF_HOME", "HF_HUB_CACHE", "VLLM_CACHE_ROOT", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR",
}

// inheritedForDownload are needed only while the weights are not here: the
// token is a secret, and a proxy has no business in an engine that serves.
var inheritedForDownload = []string{
	"HF_TOKEN", "HF_TOKEN_PATH", "HUGGING_FACE_HUB_TOKEN", "HF_ENDPOINT", "HF_XET_HIGH_PERFORMANCE",
	"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
}

// fixed are set on every engine. None of them is part of vLLM's compile cache
// key, so the cache is shared with engines that people start by hand.
var fixed = map[string]string{
	"NO_COLOR":            "1", // the log is parsed
	"PYTHONUNBUFFERED":    "1", // lines arrive when they are written
	"VLLM_NO_USAGE_STATS": "1",
	"DO_NOT_TRACK":        "1",
	// vLLM closes idle connections after 5 s by default, which a proxy that
	// keeps them open meets as a reset in the middle of a request. Seconds.
	"VLLM_HTTP_TIMEOUT_KEEP_ALIVE": "120",
	// Internal sockets (tensor parallelism, torch's store) bind to this address.
	"VLLM_HOST_IP": "127.0.0.1",
}

const defaultPath = "/usr/local/bin:/usr/bin:/bin"

// environment is the whole environment of a replica, sorted.
func (e *Engine) environment(s supervisor.Spec) []string {
	env := map[string]string{}
	take := func(names []string) {
		for _, name := range names {
			if v := lookup(e.environ, name); v != "" {
				env[name] = v
			}
		}
	}
	take(inherited)
	for name, v := range fixed {
		env[name] = v
	}
	env["PATH"] = e.path(env["PATH"])
	if atLeast(e.install.Version, rustFrontendSince) {
		// The Rust frontend lacks /v1/messages and cache_config_info.
		env["VLLM_USE_RUST_FRONTEND"] = "0"
	}
	if s.Device == supervisor.DeviceCPU {
		// Without nobind every replica binds its threads to the same core; the
		// cores are set from outside.
		env["VLLM_CPU_OMP_THREADS_BIND"] = "nobind"
		if len(s.CPUs) > 0 {
			env["OMP_NUM_THREADS"] = strconv.Itoa(len(s.CPUs))
		}
	}
	for _, kv := range s.Env {
		if name, v, ok := strings.Cut(kv, "="); ok && name != "" {
			env[name] = v
		}
	}
	if _, said := env["HF_HUB_OFFLINE"]; !said {
		if s.Device == supervisor.DeviceSimulated || local(s, env) {
			env["HF_HUB_OFFLINE"] = "1"
		}
	}
	if env["HF_HUB_OFFLINE"] != "1" {
		for _, name := range inheritedForDownload {
			if v := lookup(e.environ, name); v != "" && env[name] == "" {
				env[name] = v
			}
		}
	}
	out := make([]string, 0, len(env))
	for name, v := range env {
		out = append(out, name+"="+v)
	}
	slices.Sort(out)
	return out
}

// rustFrontendSince is the oldest version whose source was seen to know the
// variable; others would warn about an unknown one.
const rustFrontendSince = "0.26"

// path puts the installation's own programs first: kernels that are compiled
// at start call ninja, which is found only there when the virtual environment
// is not the active one.
func (e *Engine) path(inherited string) string {
	if inherited == "" {
		inherited = defaultPath
	}
	if e.install.Device == supervisor.DeviceSimulated || !filepath.IsAbs(e.install.Argv[0]) {
		return inherited
	}
	return filepath.Dir(e.install.Argv[0]) + ":" + inherited
}

// lookup is the value of a variable in a list of KEY=VALUE; the last one counts.
func lookup(env []string, name string) string {
	value := ""
	for _, kv := range env {
		if n, v, ok := strings.Cut(kv, "="); ok && n == name {
			value = v
		}
	}
	return value
}
