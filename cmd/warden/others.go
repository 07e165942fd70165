package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/lm-warden/warden/cmd/internal/exit"
	"github.com/lm-warden/warden/cmd/internal/paths"
	"github.com/lm-warden/warden/supervisor/control"
)

// otherPatience is for one warden to accept a connection; one that is stopped may not.
const otherPatience = 200 * time.Millisecond

// withOthers adds to "no warden" the names of those that do run.
func withOthers(err error, name string) error {
	if !errors.Is(err, control.ErrNoDaemon) {
		return err
	}
	others := otherWardens(name)
	if len(others) == 0 {
		return err
	}
	fix := exit.HintOf(err)
	if fix != "" {
		fix += "; "
	}
	return exit.Fail(exit.NoDaemon, fmt.Errorf("%w; under another name runs: %s", err, strings.Join(others, ", ")),
		fmt.Sprintf("%s`--name %s` means that one", fix, others[0]))
}

// otherWardens are the names of the user's running wardens, and of the system
// service's, but for one.
func otherWardens(name string) []string {
	var names []string
	for _, socket := range []func(string) string{paths.ControlSocket, paths.ServiceSocket} {
		entries, err := os.ReadDir(filepath.Dir(filepath.Dir(socket("NAME"))))
		if err != nil {
			continue // none has run there, or they are not for this user
		}
		for _, e := range entries {
			if e.Name() != name && !slices.Contains(names, e.Name()) && listens(socket(e.Name())) {
				names = append(names, e.Name())
			}
		}
	}
	return names
}

func listens(socket string) bool {
	conn, err := net.DialTimeout("unix", socket, otherPatience)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}
