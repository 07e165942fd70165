package vllm

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
)

// distribution is what an installation's own metadata says.
type distribution struct {
	version string // such as "0.32.0+cpu"; empty = not found
	cpu     bool   // a build without CUDA
}

// readDistribution finds the metadata that belongs to a `vllm` command. It only
// reads files: asking the command itself takes 10 s and more, since it imports
// everything first.
func readDistribution(command string) distribution {
	for _, root := range roots(command) {
		if d := inRoot(root); d.version != "" {
			return d
		}
	}
	return distribution{}
}

// roots are the directories whose lib holds the packages of a command in
// root/bin: its own, that of the file it links to (pipx, uv tool), and that of
// the interpreter in its first line.
func roots(command string) []string {
	grandparent := func(path string) string { return filepath.Dir(filepath.Dir(path)) }
	out := []string{grandparent(command)}
	if real, err := filepath.EvalSymlinks(command); err == nil && real != command {
		out = append(out, grandparent(real))
	}
	if python := interpreterOf(command); python != "" {
		out = append(out, grandparent(python))
	}
	return out
}

func interpreterOf(command string) string {
	f, err := os.Open(command)
	if err != nil {
		return ""
	}
	defer f.Close()
	// The kernel reads no more of a first line than this.
	line, _ := bufio.NewReaderSize(f, 256).ReadSlice('\n')
	path, ok := strings.CutPrefix(strings.TrimSpace(string(line)), "#!")
	path = strings.TrimSpace(path)
	if !ok || !filepath.IsAbs(path) || strings.ContainsRune(path, ' ') {
		return ""
	}
	return path
}

func inRoot(root string) distribution {
	var d distribution
	for _, packages := range []string{"lib/python3*/site-packages", "lib64/python3*/site-packages", "lib/python3*/dist-packages", "local/lib/python3*/dist-packages"} {
		found, _ := filepath.Glob(filepath.Join(root, packages, "vllm-*.dist-info", "METADATA"))
		for _, path := range found {
			// The newest wins where an upgrade left an old folder behind.
			if v := versionIn(path); v != "" && (d.version == "" || newer(v, d.version)) {
				d = distribution{version: v, cpu: strings.Contains(v, "+cpu")}
			}
		}
	}
	return d
}

func newer(a, b string) bool {
	av, aok := parseVersion(a)
	bv, bok := parseVersion(b)
	return aok && (!bok || av.compare(bv) > 0)
}

// versionIn reads the header of a METADATA file, which ends at the first empty
// line.
func versionIn(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	name, version := "", ""
	sc := bufio.NewScanner(f)
	for sc.Scan() && sc.Text() != "" {
		if v, ok := strings.CutPrefix(sc.Text(), "Name: "); ok {
			name = strings.TrimSpace(v)
		}
		if v, ok := strings.CutPrefix(sc.Text(), "Version: "); ok {
			version = strings.TrimSpace(v)
		}
	}
	if name != "vllm" {
		return ""
	}
	return version
}
