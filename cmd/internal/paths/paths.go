// Package paths is where warden keeps what it has on disk: sockets and state of
// what runs now, logs and records of the past, the managed vLLM, configuration.
package paths

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/lm-warden/warden/cmd/internal/exit"
)

// MaxSocketPath is what sockaddr_un holds, without its terminating NUL.
const MaxSocketPath = 107

// LongestSocket is the longest file name of a socket below the runtime
// directory (a replica's shim), with room for three-digit replica numbers.
const LongestSocket = "r999/shim.sock"

// RuntimeDir holds the sockets and the state of running replicas.
func RuntimeDir(name string) string {
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		return filepath.Join(dir, "warden", name)
	}
	return filepath.Join(os.TempDir(), "warden-"+strconv.Itoa(os.Getuid()), name)
}

// LockDir holds one lock per GPU, for all wardens of this user. It is with what
// runs now and not with what is kept: that disk may be full.
func LockDir() string { return filepath.Join(RuntimeDir(""), ".locks") }

func ControlSocket(name string) string { return filepath.Join(RuntimeDir(name), "control.sock") }

// ServiceSocket is the control socket of a warden that runs as a system service
// (configs/systemd/warden.service).
func ServiceSocket(name string) string { return filepath.Join("/run/warden", name, "control.sock") }

// MakeRuntimeDir creates the runtime directory, 0700 and ours: whoever can
// write it owns the engines.
func MakeRuntimeDir(name string) (string, error) {
	dir := RuntimeDir(name)
	if n := len(filepath.Join(dir, LongestSocket)); n > MaxSocketPath {
		return "", exit.Fail(exit.Preflight, fmt.Errorf("runtime directory %s is too long for unix sockets (%d bytes over)", dir, n-MaxSocketPath),
			"use a shorter --name, or set XDG_RUNTIME_DIR to a shorter directory")
	}
	for _, d := range []string{filepath.Dir(dir), dir} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return "", exit.Fail(exit.Preflight, fmt.Errorf("cannot create the runtime directory: %w", err), "set XDG_RUNTIME_DIR to a directory you can write")
		}
		if err := privateDir(d); err != nil {
			return "", err
		}
	}
	return dir, nil
}

func privateDir(dir string) error {
	info, err := OwnDir(dir)
	if err == nil && info.Mode().Perm()&0o077 != 0 {
		return os.Chmod(dir, 0o700)
	}
	return err
}

// OwnDir refuses what is no directory of this user.
func OwnDir(dir string) (os.FileInfo, error) {
	info, err := os.Lstat(dir)
	if err != nil {
		return nil, err
	}
	owner := info.Sys().(*syscall.Stat_t).Uid
	if !info.IsDir() || int(owner) != os.Getuid() {
		return nil, exit.Fail(exit.Preflight, fmt.Errorf("%s belongs to uid %d, not to you", dir, owner), "remove it or set XDG_RUNTIME_DIR")
	}
	return info, nil
}

// StateDir keeps logs and the durations of past starts.
func StateDir(name string) string {
	return filepath.Join(xdg("XDG_STATE_HOME", ".local/state"), "warden", name)
}

// Replace puts content in the place of a file of warden's own, readable by this
// user only, and makes its directory. A reader finds the old or the new content,
// never a part; one process at a time may write it. The disk is not synced.
func Replace(file string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	part := file + ".part"
	if err := os.WriteFile(part, content, 0o600); err != nil {
		return err
	}
	return os.Rename(part, file)
}

// ManagedDir is where `warden setup` installs vLLM: it can be made again, so it
// belongs in the cache.
func ManagedDir() string { return filepath.Join(xdg("XDG_CACHE_HOME", ".cache"), "warden") }

// ConfigFiles lists the files that are read when they exist, in rising
// priority.
func ConfigFiles() []string {
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

// Exists says whether path is there, also when it cannot be read.
func Exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, os.ErrNotExist)
}
