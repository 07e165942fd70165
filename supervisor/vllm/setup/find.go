package setup

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Environment is a complete managed installation.
type Environment struct {
	Dir     string
	VLLM    string // the `vllm` command
	Device  string // CUDA or CPU
	Version string // of vLLM
	Python  string // such as "3.12"
	Torch   string
	CUDA    string // that torch was built for; empty on the CPU build
}

func environment(dir string, j Journal) Environment {
	return Environment{
		Dir: dir, VLLM: filepath.Join(dir, "bin", "vllm"),
		Device: j.Device, Version: j.Version, Python: j.Python, Torch: j.Torch, CUDA: j.CUDA,
	}
}

// Find returns the complete environments below dir for a device ("" = any),
// newest vLLM first. A directory that cannot be read counts as empty, and an
// environment whose files are gone is left out.
func Find(dir, device string) []Environment {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var found []Environment
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		j, err := readJournal(path)
		if err != nil || !j.Complete || device != "" && j.Device != device {
			continue
		}
		env := environment(path, j)
		if exists(env.VLLM) && exists(filepath.Join(path, "bin", "python")) {
			found = append(found, env)
		}
	}
	slices.SortFunc(found, func(a, b Environment) int {
		return cmp.Or(compareVersions(b.Version, a.Version), cmp.Compare(a.Dir, b.Dir))
	})
	return found
}

// compareVersions orders dotted versions by number; what is not a number in
// them counts as 0.
func compareVersions(a, b string) int {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i := range max(len(as), len(bs)) {
		if c := cmp.Compare(number(as, i), number(bs, i)); c != 0 {
			return c
		}
	}
	return 0
}

func number(parts []string, i int) int {
	if i >= len(parts) {
		return 0
	}
	n, _ := strconv.Atoi(parts[i])
	return n
}
