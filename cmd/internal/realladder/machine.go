package realladder

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/lm-warden/warden/gpu"
)

// Machine is what the ladder ran on.
type Machine struct {
	CPU    string `json:"cpu"`
	Cores  []int  `json:"cores"`
	Memory string `json:"memory"`
	Kernel string `json:"kernel"`
	// LoadBefore is the one-minute load average before anything was started:
	// above 0.5 others were at work on the same cores.
	LoadBefore float64           `json:"load_average_before"`
	Versions   map[string]string `json:"versions"`
}

// busyLoad is the load average from which a machine counts as shared.
const busyLoad = 0.5

func (m Machine) shared() bool { return m.LoadBefore > busyLoad }

// half are the cores that one of the two engines has for itself.
func (m Machine) half() []int { return m.Cores[:max(1, len(m.Cores)/replicas)] }

func describeMachine() (Machine, error) {
	cores, err := gpu.AllowedCores()
	if err != nil {
		return Machine{}, err
	}
	m := Machine{
		CPU: field("/proc/cpuinfo", "model name"), Memory: field("/proc/meminfo", "MemTotal"), Kernel: firstLine("/proc/sys/kernel/osrelease"),
		Cores: cores, LoadBefore: loadAverage(), Versions: map[string]string{"go": runtime.Version()},
	}
	return m, nil
}

// field is the value of the first line "name : value" of a file.
func field(file, name string) string {
	text, _ := os.ReadFile(file) // what cannot be read is shown as empty
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func firstLine(file string) string {
	text, _ := os.ReadFile(file)
	line, _, _ := strings.Cut(string(text), "\n")
	return line
}

// loadAverage is that of the last minute.
func loadAverage() float64 {
	first, _, _ := strings.Cut(firstLine("/proc/loadavg"), " ")
	v, _ := strconv.ParseFloat(first, 64)
	return v
}

// versions asks everything that takes part for its version.
func (b *bed) versions(ctx context.Context) map[string]string {
	out := map[string]string{"vllm": b.install.Version}
	for name, argv := range map[string][]string{"warden": {b.Warden, "version"}, "haproxy": {b.find("haproxy"), "-v"}} {
		if argv[0] == "" {
			continue
		}
		text, err := exec.CommandContext(ctx, argv[0], argv[1:]...).Output()
		if err == nil {
			out[name], _, _ = strings.Cut(strings.TrimSpace(string(text)), "\n")
		}
	}
	// The others need seconds to say it, and their folders are named by it.
	for _, program := range []string{"vllm-router", "smg"} {
		if path := b.find(program); path != "" {
			out[program] = strings.TrimPrefix(filepath.Base(filepath.Dir(filepath.Dir(path))), program+"-")
		}
	}
	return out
}

func (b *bed) get(ctx context.Context, url string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := b.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", url, resp.Status)
	}
	return io.ReadAll(resp.Body)
}
