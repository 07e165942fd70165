package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lm-warden/warden/cmd/internal/exit"
	"github.com/lm-warden/warden/cmd/internal/front"
	"github.com/lm-warden/warden/configs"
)

// WayIn is what clients need to come in, and the log of their requests. A file
// that is not configured is "".
type WayIn struct {
	KeysFile, Certificate, AccessLog string
	Keys                             int           // in KeysFile
	Expires                          time.Time     // of Certificate
	Left                             time.Duration // until then
	// Why a start would refuse them, and what to do.
	KeysErr, CertErr, LogErr error
}

// LookAtWayIn reads keys and certificate as a start would, and makes nothing.
func LookAtWayIn(cfg configs.Config) WayIn {
	w := WayIn{KeysFile: cfg.APIKeysFile, Certificate: cfg.TLSCert, AccessLog: cfg.AccessLog}
	if w.KeysFile != "" {
		f, err := front.Open(front.Options{KeysFile: w.KeysFile})
		if w.KeysErr = err; err == nil {
			w.Keys = len(f.State().Keys)
		}
	}
	if w.Certificate != "" {
		f, err := front.Open(front.Options{CertFile: w.Certificate, KeyFile: cfg.TLSKey})
		if w.CertErr = err; err == nil {
			w.Expires = f.State().Expires
			w.Left = time.Until(w.Expires)
		}
	}
	if w.AccessLog != "" {
		w.LogErr = appendable(w.AccessLog)
	}
	return w
}

// appendable says why nothing could be written behind a file, which need not
// exist yet. Its directory must.
func appendable(file string) error {
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		dir := filepath.Dir(file)
		if _, err := os.Stat(dir); err != nil {
			return err
		}
		return Writable(dir)
	case err != nil:
		return err
	case info.IsDir():
		return &fs.PathError{Op: "write", Path: file, Err: unix.EISDIR}
	}
	if err := unix.Access(file, unix.W_OK); err != nil {
		return &fs.PathError{Op: "write", Path: file, Err: err}
	}
	return nil
}

func wayIn(f Facts) []Finding {
	var all []Finding
	add := func(name string, mark Mark, fact, fix string) { all = append(all, Finding{name, mark, fact, fix}) }
	w := f.WayIn
	if w.KeysErr != nil {
		add("API keys", Fail, w.KeysErr.Error(), exit.HintOf(w.KeysErr))
	} else if w.KeysFile != "" {
		add("API keys", OK, fmt.Sprintf("%d in %s", w.Keys, w.KeysFile), "")
	}
	until := w.Certificate + ", until " + w.Expires.Format(time.DateOnly)
	switch {
	case w.CertErr != nil:
		add("certificate", Fail, w.CertErr.Error(), exit.HintOf(w.CertErr))
	case w.Certificate == "":
	case w.Left <= 0:
		add("certificate", Warn, until+": it has expired, clients refuse it", "renew it; a warden that runs reads it again")
	case w.Left < front.ExpirySoon:
		add("certificate", Warn, until+": it expires soon", "renew it; a warden that runs reads it again")
	default:
		add("certificate", OK, until, "")
	}
	if w.LogErr != nil {
		add("access log", Fail, w.LogErr.Error(), "`access_log` names a file in a directory that exists and is yours")
	} else if w.AccessLog != "" {
		add("access log", OK, w.AccessLog, "")
	}
	return all
}
