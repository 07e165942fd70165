package vllm

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Install is one vLLM on this machine.
type Install struct {
	Argv     []string // how to call it, up to "serve": {"/v/bin/vllm"} or {"/proc/self/exe", "__simengine"}
	Version  string   // such as "0.32.0+cpu"; empty = could not be read
	Origin   string   // where it was found, in words: "--vllm", "PATH", ...
	Device   string   // supervisor.DeviceCUDA, DeviceCPU or DeviceSimulated
	Warnings []string // what a person should know before starting it
}

// The versions that warden knows. Metrics and flags of 0.24 to 0.32 were read
// in vLLM's source; 0.32 is run by the tests with the tag vllm.
const (
	OldestVersion = "0.24"
	NewestTested  = "0.32"
)

// version is the numeric part of a version, without suffixes such as "rc1" or
// "+cpu".
type version [3]int

var versionNumbers = regexp.MustCompile(`^(\d+)\.(\d+)(?:\.(\d+))?`)

func parseVersion(s string) (version, bool) {
	m := versionNumbers.FindStringSubmatch(s)
	if m == nil {
		return version{}, false
	}
	var v version
	for i := range v {
		v[i], _ = strconv.Atoi(m[i+1]) // a missing patch level is 0
	}
	return v, true
}

func (v version) compare(o version) int {
	return cmp.Or(cmp.Compare(v[0], o[0]), cmp.Compare(v[1], o[1]), cmp.Compare(v[2], o[2]))
}

// atLeast reports whether an installation of version s has what came with
// since. An unknown version is taken for a new one: what it refuses is learned
// from its refusal.
func atLeast(s, since string) bool {
	have, ok := parseVersion(s)
	want, _ := parseVersion(since)
	return !ok || have.compare(want) >= 0
}

// judge returns an error for a version that warden cannot run and a warning for
// one that it does not know.
func judge(s string) (warning string, err error) {
	v, ok := parseVersion(s)
	if !ok {
		return "the version of this vLLM cannot be read: metrics or flags may be missing", nil
	}
	oldest, _ := parseVersion(OldestVersion)
	newest, _ := parseVersion(NewestTested)
	if v.compare(oldest) < 0 {
		return "", fmt.Errorf("is vLLM %s and warden needs %s or newer", plain(s), OldestVersion)
	}
	if cmp.Or(cmp.Compare(v[0], newest[0]), cmp.Compare(v[1], newest[1])) > 0 {
		return fmt.Sprintf("vLLM %s is newer than the newest tested (%s): metrics may be missing", plain(s), NewestTested), nil
	}
	return "", nil
}

// plain is a version without its local part.
func plain(s string) string {
	s, _, _ = strings.Cut(s, "+")
	return s
}
