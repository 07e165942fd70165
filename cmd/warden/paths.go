package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// maxSocketPath is what sockaddr_un holds, without its terminating NUL.
const maxSocketPath = 107

// longestSocket is the longest file name of a socket below the runtime
// directory (a replica's shim), with room for three-digit replica numbers.
const longestSocket = "r999/shim.sock"

// runtimeDir holds the sockets and the state of running replicas.
func runtimeDir(name string) string {
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		return filepath.Join(dir, "warden", name)
	}
	return filepath.Join(os.TempDir(), "warden-"+strconv.Itoa(os.Getuid()), name)
}

// lockDir holds one lock per GPU, for all wardens of this user. It is with what
// runs now and not with what is kept: that disk may be full.
func lockDir() string { return filepath.Join(runtimeDir(""), ".locks") }

func controlSocket(name string) string { return filepath.Join(runtimeDir(name), "control.sock") }

// serviceSocket is the control socket of a warden that runs as a system service
// (configs/systemd/warden.service).
func serviceSocket(name string) string { return filepath.Join("/run/warden", name, "control.sock") }

// makeRuntimeDir creates the runtime directory, 0700 and ours: whoever can
// write it owns the engines.
func makeRuntimeDir(name string) (string, error) {
	dir := runtimeDir(name)
	if n := len(filepath.Join(dir, longestSocket)); n > maxSocketPath {
		return "", fail(exitPreflight, fmt.Errorf("runtime directory %s is too long for unix sockets (%d bytes over)", dir, n-maxSocketPath),
			"use a shorter --name, or set XDG_RUNTIME_DIR to a shorter directory")
	}
	for _, d := range []string{filepath.Dir(dir), dir} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return "", fail(exitPreflight, fmt.Errorf("cannot create the runtime directory: %w", err), "set XDG_RUNTIME_DIR to a directory you can write")
		}
		if err := privateDir(d); err != nil {
			return "", err
		}
	}
	return dir, nil
}

func privateDir(dir string) error {
	info, err := ownDir(dir)
	if err == nil && info.Mode().Perm()&0o077 != 0 {
		return os.Chmod(dir, 0o700)
	}
	return err
}

// ownDir refuses what is no directory of this user.
func ownDir(dir string) (os.FileInfo, error) {
	info, err := os.Lstat(dir)
	if err != nil {
		return nil, err
	}
	owner := info.Sys().(*syscall.Stat_t).Uid
	if !info.IsDir() || int(owner) != os.Getuid() {
		return nil, fail(exitPreflight, fmt.Errorf("%s belongs to uid %d, not to you", dir, owner), "remove it or set XDG_RUNTIME_DIR")
	}
	return info, nil
}

// stateDir keeps logs and the durations of past starts.
func stateDir(name string) string {
	return filepath.Join(xdg("XDG_STATE_HOME", ".local/state"), "warden", name)
}

// managedDir is where `warden setup` installs vLLM: it can be made again, so it
// belongs in the cache.
func managedDir() string { return filepath.Join(xdg("XDG_CACHE_HOME", ".cache"), "warden") }

// configFiles lists the files that are read when they exist, in rising
// priority.
func configFiles() []string {
	files := []string{"/etc/warden/config.yaml", filepath.Join(xdg("XDG_CONFIG_HOME", ".config"), "warden", "config.yaml")}
	if local, err := filepath.Abs("warden.yaml"); err == nil {
		files = append(files, local)
	}
	return files
}

func xdg(variable, fallback string) string {
	if dir := os.Getenv(variable); filepath.IsAbs(dir) {
		return dir
	}
	home, err := os.UserHomeDir()
	if err != nil {
		home = "/" // a service without HOME; the unit file sets the directories
	}
	return filepath.Join(home, fallback)
}

// exists says whether path is there, also when it cannot be read.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, os.ErrNotExist)
}
