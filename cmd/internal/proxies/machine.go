package proxies

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/lm-warden/warden/gpu"
)

// Machine is what measurements ran on.
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

// Shared: others were at work on the machine.
func (m Machine) Shared() bool { return m.LoadBefore > busyLoad }

// DescribeMachine looks at this machine.
func DescribeMachine() (Machine, error) {
	cores, err := gpu.AllowedCores()
	if err != nil {
		return Machine{}, err
	}
	m := Machine{
		CPU: field("/proc/cpuinfo", "model name"), Memory: field("/proc/meminfo", "MemTotal"), Kernel: firstLine("/proc/sys/kernel/osrelease"),
		Cores: cores, LoadBefore: LoadAverage(), Versions: map[string]string{"go": runtime.Version()},
	}
	return m, nil
}

// WriteMarkdown writes it as the second half of a line, the versions, and a
// warning where others were at work.
func (m Machine) WriteMarkdown(w io.Writer) {
	fmt.Fprintf(w, "%s, %d cores used, %s, Linux %s.\n", m.CPU, len(m.Cores), m.Memory, m.Kernel)
	var versions []string
	for name, v := range m.Versions {
		versions = append(versions, name+" "+strings.TrimPrefix(v, name+" "))
	}
	slices.Sort(versions)
	fmt.Fprintf(w, "Versions: %s.\n\n", strings.Join(versions, "; "))
	if m.Shared() {
		fmt.Fprintf(w, "**The machine was shared:** its load average was %.1f before anything was started. Read the order, not the figures.\n\n", m.LoadBefore)
	}
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

// LoadAverage is that of the last minute.
func LoadAverage() float64 {
	first, _, _ := strings.Cut(firstLine("/proc/loadavg"), " ")
	v, _ := strconv.ParseFloat(first, 64)
	return v
}
