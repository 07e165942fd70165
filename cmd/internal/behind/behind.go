// Package behind starts a warden behind the terminal: the same program in a
// session of its own, tied to this process by two pipes. The leash: when this
// process ends without saying "detach", the one behind drains and stops, so a
// closed terminal or a kill leaves nothing running by accident. The report: one
// JSON line, sent when the control socket answers or the start failed.
//
// behind.go is the side of the terminal, leash.go that of the warden behind.
package behind

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/lm-warden/warden/cmd/internal/exit"
	"github.com/lm-warden/warden/cmd/internal/paths"
	"github.com/lm-warden/warden/cmd/internal/self"
	"github.com/lm-warden/warden/supervisor/control"
)

// Descriptors of the warden behind.
const (
	leashFD  = 3
	reportFD = 4
)

// DetachWord on the leash lets the warden behind live on.
const DetachWord = "detach\n"

const (
	// answerLimit bounds a question to the warden behind.
	answerLimit = 5 * time.Second
	// killLimit is for a warden that was told to kill to have done so.
	killLimit = 15 * time.Second
)

// Warden is one that this process started.
type Warden struct {
	cmd   *exec.Cmd
	leash *os.File
	log   string
	done  chan struct{} // closed when it has ended
}

// Start runs this program again as the warden called name, with args, the command
// line of this process, and waits for its report.
func Start(name string, args []string) (*Warden, error) {
	if err := os.MkdirAll(paths.StateDir(name), 0o700); err != nil {
		return nil, exit.Fail(exit.Preflight, fmt.Errorf("cannot create the state directory: %w", err), "set XDG_STATE_HOME to a directory you can write")
	}
	logPath := filepath.Join(paths.StateDir(name), "warden.log")
	logFile, err := os.OpenFile(logPath, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer logFile.Close()
	leashRead, leashWrite, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer leashRead.Close()
	reportRead, reportWrite, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, leashWrite.Close())
	}
	defer reportRead.Close()
	cmd := exec.Command(self.Path(), self.WithFlag(args, "--leash")...)
	cmd.Stdout, cmd.Stderr = logFile, logFile
	cmd.ExtraFiles = []*os.File{leashRead, reportWrite}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	reportWrite.Close()
	if err != nil {
		return nil, errors.Join(err, leashWrite.Close())
	}
	w := &Warden{cmd: cmd, leash: leashWrite, log: logPath, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		_ = cmd.Wait() // its report and the socket say how it went
	}()
	return w, w.readReport(reportRead)
}

func (w *Warden) readReport(r io.Reader) error {
	line, err := bufio.NewReader(r).ReadBytes('\n')
	var report exit.Report
	if jsonErr := json.Unmarshal(line, &report); jsonErr != nil {
		<-w.done
		return exit.Fail(exit.Start, fmt.Errorf("warden ended while starting (%v)", errors.Join(err, jsonErr)), "its log is "+w.log)
	}
	if !report.OK {
		<-w.done
	}
	return report.Err()
}

// Log is the file that it writes to.
func (w *Warden) Log() string { return w.log }

// Detach lets it live on.
func (w *Warden) Detach() error {
	_, err := w.leash.WriteString(DetachWord)
	return errors.Join(err, w.leash.Close())
}

// Stop lets it drain and waits for its end; it is killed once forced opens.
func (w *Warden) Stop(client *control.Client, drain time.Duration, forced <-chan struct{}) error {
	defer w.leash.Close()
	ctx, cancel := context.WithTimeout(context.Background(), answerLimit)
	defer cancel()
	if err := client.Shutdown(ctx, control.ShutdownRequest{Drain: control.Duration(drain), Now: drain == 0}); err != nil {
		w.leash.Close() // it drains on its own then
	}
	select {
	case <-w.done:
		return nil
	case <-forced:
	}
	killCtx, cancelKill := context.WithTimeout(context.Background(), answerLimit)
	defer cancelKill()
	if err := client.Shutdown(killCtx, control.ShutdownRequest{Now: true}); err != nil {
		_ = w.cmd.Process.Kill()
	}
	select {
	case <-w.done:
	case <-time.After(killLimit):
		_ = w.cmd.Process.Kill()
		<-w.done
	}
	return exit.ErrForced
}
