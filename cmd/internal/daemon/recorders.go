package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lm-warden/warden/cmd/internal/accesslog"
	"github.com/lm-warden/warden/cmd/internal/exit"
	"github.com/lm-warden/warden/cmd/internal/tracing"
	"github.com/lm-warden/warden/configs"
	"github.com/lm-warden/warden/router"
)

// recorders are told of finished requests. Neither is there unless it was
// asked for.
type recorders struct {
	access *accesslog.Log
	tracer *tracing.Tracer
}

// openRecorders makes what the configuration asks for and names it to the
// router.
func (d *Daemon) openRecorders(o *router.Options) error {
	if err := d.openTracer(); err != nil {
		return err
	}
	if t := d.recorders.tracer; t != nil {
		o.Trace = t.Begin
	}
	if d.cfg.AccessLog == "" {
		return nil
	}
	l, err := accesslog.Open(accesslog.Options{Path: d.cfg.AccessLog, Simulated: d.simulated(), Log: d.log})
	if err != nil {
		return exit.Fail(exit.Config, err, "`access_log` names a file in a directory that exists and is yours")
	}
	d.recorders.access, o.OnFinish = l, l.Add
	return nil
}

// openTracer makes the tracer. A wrong OTEL_ variable, which may be meant for
// other programs, costs the traces and not the service.
func (d *Daemon) openTracer() error {
	settings, on, err := tracing.Read(d.cfg.Tracing.Endpoint, os.LookupEnv)
	if err == nil && on {
		host, port, _ := net.SplitHostPort(d.cfg.Listen)
		number, _ := strconv.Atoi(port)
		d.recorders.tracer, err = tracing.New(tracing.Options{
			Settings: settings, Version: d.opts.Version, Address: host, Port: number, Simulated: d.simulated(), Log: d.log,
		})
	}
	switch {
	case err == nil:
		return nil
	case d.cfg.Tracing.Endpoint != "":
		return exit.Fail(exit.Config, fmt.Errorf("traces cannot be sent: %w", err), "")
	}
	d.log.Warn("no traces are sent", "err", err)
	return nil
}

func (d *Daemon) simulated() bool { return d.cfg.Engine.Device == configs.DeviceSimulated }

// start runs the recorders. finish returns when they have written all they
// were told; call it when no request is left.
func (r *recorders) start() (finish func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	var group errgroup.Group
	if r.access != nil {
		group.Go(func() error { return r.access.Run(ctx) })
	}
	if r.tracer != nil {
		group.Go(func() error { return r.tracer.Run(ctx) })
	}
	return func() error {
		cancel()
		written := make(chan error, 1)
		go func() { written <- group.Wait() }()
		select {
		case err := <-written:
			return err
		case <-time.After(finishTime):
			return errors.New("the access log's disk does not answer: its last lines are lost")
		}
	}
}

// finishTime is how long a stop waits for a disk. The tracer bounds itself.
const finishTime = 5 * time.Second

// dropped counts the lines and the spans that were not written; nil functions
// for what is not there.
func (r *recorders) dropped() (lines, spans func() uint64) {
	if r.access != nil {
		lines = r.access.Dropped
	}
	if r.tracer != nil {
		spans = r.tracer.Dropped
	}
	return lines, spans
}
