package daemon

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/lm-warden/warden/cmd/internal/exit"
	"github.com/lm-warden/warden/router"
	"github.com/lm-warden/warden/router/payload"
)

// openSpool tells the router where large bodies lie. A directory that was chosen
// and is wrong ends the start; a full disk passes, and bodies are memory meanwhile.
func (d *Daemon) openSpool(o *router.Options) error {
	o.SpoolDir, o.SpoolBody = d.cfg.SpoolDir, int64(d.cfg.SpoolAboveMiB)<<20
	err := payload.CheckDir(o.SpoolDir)
	full := errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
	if err != nil && o.SpoolDir != "" && !full {
		return exit.Fail(exit.Config, err, "`spool_dir` names a directory on a disk that is yours to write, such as /var/tmp")
	}
	if err != nil {
		d.log.Warn("large request bodies stay in memory", "err", err)
	}
	return nil
}
