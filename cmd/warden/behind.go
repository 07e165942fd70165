package main

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
	"github.com/lm-warden/warden/cmd/internal/words"
	"github.com/lm-warden/warden/configs"
	"github.com/lm-warden/warden/supervisor/control"
	"github.com/lm-warden/warden/tui"
)

// A warden behind the terminal is the same program in a session of its own,
// tied to this one by two pipes. The leash: when this process ends without
// saying "detach", the one behind drains and stops, so a closed terminal or a
// kill leaves nothing running by accident. The report: one JSON line, sent when
// the control socket answers or the start failed.

const (
	leashFD  = 3
	reportFD = 4

	detachWord = "detach\n"
)

// behind is a warden started by this process.
type behind struct {
	cmd   *exec.Cmd
	leash *os.File
	log   string
	done  chan struct{} // closed when it has ended
}

// startBehind runs this program again as the daemon and waits for its report.
func (a *app) startBehind(cfg configs.Config) (*behind, error) {
	if err := os.MkdirAll(paths.StateDir(cfg.Name), 0o700); err != nil {
		return nil, exit.Fail(exit.Preflight, fmt.Errorf("cannot create the state directory: %w", err), "set XDG_STATE_HOME to a directory you can write")
	}
	logPath := filepath.Join(paths.StateDir(cfg.Name), "warden.log")
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
	cmd := exec.Command(self.Path(), self.WithFlag(os.Args[1:], "--leash")...)
	cmd.Stdout, cmd.Stderr = logFile, logFile
	cmd.ExtraFiles = []*os.File{leashRead, reportWrite}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	reportWrite.Close()
	if err != nil {
		return nil, errors.Join(err, leashWrite.Close())
	}
	b := &behind{cmd: cmd, leash: leashWrite, log: logPath, done: make(chan struct{})}
	go func() {
		defer close(b.done)
		_ = cmd.Wait() // its report and the socket say how it went
	}()
	return b, b.readReport(reportRead)
}

func (b *behind) readReport(r io.Reader) error {
	line, err := bufio.NewReader(r).ReadBytes('\n')
	var rep exit.Report
	if jsonErr := json.Unmarshal(line, &rep); jsonErr != nil {
		<-b.done
		return exit.Fail(exit.Start, fmt.Errorf("warden ended while starting (%v)", errors.Join(err, jsonErr)), "its log is "+b.log)
	}
	if !rep.OK {
		<-b.done
		return rep.Err()
	}
	return nil
}

// detach lets the warden behind live on.
func (b *behind) detach() error {
	_, err := b.leash.WriteString(detachWord)
	return errors.Join(err, b.leash.Close())
}

// upBehind is `up -d` and `up` on a terminal.
func (a *app) upBehind(ctx context.Context, cfg configs.Config, f *upFlags, mode tui.ProgressMode) error {
	b, err := a.startBehind(cfg)
	if err != nil {
		return err
	}
	client, err := control.Dial(ctx, paths.ControlSocket(cfg.Name))
	if err != nil {
		return exit.Fail(exit.Start, err, "its log is "+b.log)
	}
	defer client.Close()
	if f.detach && f.noWait {
		fmt.Fprintf(a.out, "starting behind: socket %s, log %s\n", client.Socket(), b.log)
		return b.detach()
	}
	ctx, signals := a.watchSignals(ctx, hangupStops)
	defer signals.close()
	opts, err := a.progressOptions(f, mode)
	if err != nil {
		return err
	}
	err = tui.Progress(ctx, client, a.err, opts)
	switch {
	case signals.count() > 0:
		return a.stopBehind(b, client, signals, cfg.Drain)
	case err != nil:
		return errors.Join(exit.Fail(exit.Start, err, exit.HintOf(err)), a.stopBehind(b, client, signals, 0))
	case f.detach:
		return errors.Join(a.tellWhere(ctx, client, b), b.detach())
	}
	return a.dashboard(ctx, b, client, f, signals, cfg)
}

// tellWhere prints what a person needs of a warden that goes on behind.
func (a *app) tellWhere(ctx context.Context, client *control.Client, b *behind) error {
	status, err := client.Status(ctx)
	fmt.Fprintf(a.out, "api    %s\nsocket %s\nlog    %s\nwatch: warden top   stop: warden down   clients: warden env\n",
		status.Listen, client.Socket(), b.log)
	return err
}

// dashboard shows the replicas until the person stops or leaves.
func (a *app) dashboard(ctx context.Context, b *behind, client *control.Client, f *upFlags, signals *signals, cfg configs.Config) error {
	theme, err := a.theme(f.ascii, a.out)
	if err != nil {
		return err
	}
	result, err := tui.Run(ctx, client, tui.Options{Mode: tui.Up, Theme: theme, In: a.in, Out: a.out})
	if result.Action == tui.Detached {
		fmt.Fprintln(a.err, "left running: `warden top` to watch it again, `warden down` to stop it")
		return b.detach()
	}
	return errors.Join(err, a.stopBehind(b, client, signals, cfg.Drain))
}

// stopBehind drains and stops the warden behind; a second signal kills.
func (a *app) stopBehind(b *behind, client *control.Client, signals *signals, drain time.Duration) error {
	defer b.leash.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if status, err := client.Status(ctx); err == nil {
		fmt.Fprintf(a.err, "stopping: %s in flight, up to %s; Ctrl-C again to kill\n", words.Count(status.Totals.Held, "request", "requests"), drain)
	}
	if err := client.Shutdown(ctx, control.ShutdownRequest{Drain: control.Duration(drain), Now: drain == 0}); err != nil {
		b.leash.Close() // it drains on its own then
	}
	select {
	case <-b.done:
		return nil
	case <-signals.second():
	}
	killCtx, cancelKill := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancelKill()
	if err := client.Shutdown(killCtx, control.ShutdownRequest{Now: true}); err != nil {
		_ = b.cmd.Process.Kill()
	}
	select {
	case <-b.done:
	case <-time.After(15 * time.Second):
		_ = b.cmd.Process.Kill()
		<-b.done
	}
	return exit.ErrForced
}
