package simengine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lm-warden/warden/supervisor/simengine/server"
)

const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2 // argparse's
)

// Figures of vLLM and uvicorn that supervisors meet.
const (
	keepAlive     = 5 * time.Second        // VLLM_HTTP_TIMEOUT_KEEP_ALIVE
	watchdog      = 5 * time.Second        // VLLM_WATCHDOG_TIME_S: from the engine's death to the exit
	deadAndListen = 500 * time.Millisecond // how long /health still answers 503 after the engine's death
)

// Main is the simulated engine's process: args begin with "serve", as vLLM's
// do. It returns the exit status. A cancelled ctx counts as SIGTERM.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 && args[0] == coreCommand {
		return runCore(args[1:], stderr)
	}
	c, err := newConfig(args)
	if err != nil {
		fmt.Fprintf(stderr, "usage: vllm [-h] [-v]\n            {serve}\n            ...\nvllm: error: %v\n", err)
		return exitUsage
	}
	p := &process{config: &c, log: &logger{out: stdout, err: stderr}, stdout: stdout, stderr: stderr}
	return p.run(ctx)
}

// process is one run of the engine.
type process struct {
	*config
	log            *logger
	stdout, stderr io.Writer
	engine         *server.Server
	core           *coreProcess
	stops          chan os.Signal
}

// run is the life of an engine: load, serve, end.
func (p *process) run(ctx context.Context) int {
	p.stops = make(chan os.Signal, 1)
	signal.Notify(p.stops, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(p.stops)
	s, err := bind(p.config)
	if err != nil {
		return p.fail(err)
	}
	if status, ok := p.start(ctx, s); !ok {
		s.close()
		return status
	}
	listener, err := s.listen()
	if err != nil {
		p.endCore()
		return p.fail(err)
	}
	running, stop := context.WithCancel(context.Background())
	web := &http.Server{
		Handler: p.access.wrap(p.engine, p.stdout), IdleTimeout: keepAlive,
		ConnContext: server.ConnContext, ErrorLog: log.New(io.Discard, "", 0),
	}
	var wg sync.WaitGroup
	wg.Go(func() { _ = p.engine.Run(running) })
	wg.Go(func() {
		if err := web.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			p.log.raw("server: " + err.Error())
		}
	})
	wg.Go(func() { p.flood(running) })
	p.log.server("Started server process [%d]", os.Getpid())
	p.log.server("Waiting for application startup.")
	p.log.server("Application startup complete.")
	status := p.serve(ctx, web)
	stop()
	_ = web.Close()
	p.endCore()
	wg.Wait()
	p.log.server("Finished server process [%d]", os.Getpid())
	return status
}

// start checks what can be checked only now, starts EngineCore and plays the
// load. The status counts where ok is false.
func (p *process) start(ctx context.Context, s *socket) (status int, ok bool) {
	err := p.checkLengths()
	if err == nil {
		p.engine, err = server.New(p.server)
	}
	if err == nil {
		err = p.engine.Faults().Apply(p.faults)
	}
	if err == nil && p.tree != treeNone {
		faults, _ := p.engine.Faults().Process()
		p.core, err = startCore(p.config, faults.Hold, p.stdout, p.stderr)
	}
	if err != nil {
		return p.failCore(err), false
	}
	if p.core != nil {
		p.log.core = p.core.pid
	}
	loading, cancel := context.WithCancel(ctx)
	defer cancel()
	stopped := make(chan os.Signal, 1)
	go func() {
		select {
		case sig := <-p.stops:
			stopped <- sig
			cancel()
		case <-loading.Done():
		}
	}()
	if p.play(loading, p.log, s.address) {
		return exitOK, true
	}
	p.endCore()
	// Python dies of a signal while it imports; a shell would say the same.
	const signalBase = 128
	select {
	case sig := <-stopped:
		return signalBase + int(sig.(syscall.Signal)), false
	default:
		return signalBase + int(syscall.SIGTERM), false
	}
}

// serve waits for the first reason to end and returns the exit status.
func (p *process) serve(ctx context.Context, web *http.Server) int {
	done := ctx.Done()
	died := make(<-chan struct{})
	if p.core != nil {
		died = p.core.gone
	}
	for {
		faults, changed := p.engine.Faults().Process()
		exit := after(faults.Exit, faults.ExitAfter)
		death := after(faults.EngineDeath, faults.DeathAfter)
		crash := after(faults.CrashMean > 0, time.Duration(rand.ExpFloat64()*float64(faults.CrashMean)))
		select {
		case <-p.stops:
			if !faults.IgnoreTerm {
				return p.shutdown(web)
			}
			p.log.api("simengine", "SIGTERM ignored, as asked for")
		case <-done:
			done = nil
			if !faults.IgnoreTerm {
				return p.shutdown(web)
			}
		case <-died:
			return p.engineDied(web)
		case <-exit:
			p.log.raw(fmt.Sprintf("exit with status %d, as asked for", faults.ExitCode))
			return faults.ExitCode
		case <-death:
			died = p.killCore(died)
		case <-crash:
			died = p.killCore(died)
		case <-changed:
		}
	}
}

// after is a channel that fires once after d, or never.
func after(on bool, d time.Duration) <-chan time.Time {
	if !on {
		return nil
	}
	return time.After(d)
}

// killCore plays the death of EngineCore, with or without a process for it, and
// returns the channel that tells of it.
func (p *process) killCore(died <-chan struct{}) <-chan struct{} {
	if p.core != nil {
		p.core.signal(syscall.SIGKILL)
		return died
	}
	gone := make(chan struct{})
	close(gone)
	return gone
}

// engineDied is vLLM's end without its engine: /health says 503 for a moment,
// the server goes away, and the exit status is 0 all the same.
func (p *process) engineDied(web *http.Server) int {
	p.engine.Kill()
	p.log.write(apiServer, "WARNING", "core_client.py:817", "[shutdown] MPClient: engine core exited unexpectedly; starting cleanup")
	p.log.write(apiServer, "ERROR", "async_llm.py:906", "AsyncLLM output_handler failed.")
	p.log.write(apiServer, "ERROR", "async_llm.py:906", "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.")
	time.Sleep(deadAndListen)
	_ = web.Close()
	p.log.server("Shutting down")
	p.log.server("Waiting for application shutdown.")
	time.Sleep(watchdog - deadAndListen)
	p.log.server("Application shutdown complete.")
	return exitOK
}

// shutdown aborts what is in flight, or drains it for --shutdown-timeout.
// Aborted requests end with the engine's error, as in vLLM.
func (p *process) shutdown(web *http.Server) int {
	mode, patience := "abort", deadAndListen
	if p.drain > 0 {
		mode, patience = "drain", p.drain
	}
	p.log.api("launcher.py:254", "[shutdown] API server: shutdown triggered")
	p.log.api("launcher.py:270", "[shutdown] API server: stopping engine client mode=%s timeout=%.0fs", mode, p.drain.Seconds())
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if p.drain > 0 {
		p.engine.Drain(ctx)
	} else {
		p.engine.Kill()
	}
	p.log.api("launcher.py:279", "[shutdown] API server: engine client stopped")
	p.log.server("Shutting down")
	_ = web.Shutdown(ctx) // answers that are complete still have to be written; what is late is cut
	p.log.server("Application shutdown complete.")
	return exitOK
}

// endCore ends EngineCore, unless it is to hold on to its memory.
func (p *process) endCore() {
	if p.core == nil {
		return
	}
	if faults, _ := p.engine.Faults().Process(); faults.Hold > 0 {
		p.core.signal(syscall.SIGTERM)
		return
	}
	p.core.signal(syscall.SIGKILL)
	<-p.core.gone
}

// flood writes as many log lines as asked for.
func (p *process) flood(ctx context.Context) {
	const batches = 20 // a second
	for {
		faults, changed := p.engine.Faults().Process()
		var tick <-chan time.Time
		if faults.LogFlood > 0 {
			tick = time.After(time.Second / batches)
		}
		select {
		case <-tick:
			for n := range (faults.LogFlood + batches - 1) / batches {
				p.log.api("simengine", "log flood, as asked for: line %d of this batch", n)
			}
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// fail reports an error of the API server.
func (p *process) fail(err error) int {
	p.log.raw("Traceback (most recent call last):")
	if errors.Is(err, unix.EADDRINUSE) {
		p.log.raw(fmt.Sprintf("OSError: [Errno %d] Address already in use", int(unix.EADDRINUSE)))
	}
	p.log.raw("  " + err.Error())
	return exitFailed
}

// failCore reports an error of EngineCore: its text comes first, vLLM's generic
// line last.
func (p *process) failCore(err error) int {
	p.log.write(engineCore, "ERROR", "core.py:1140", "EngineCore failed to start.")
	p.log.write(engineCore, "ERROR", "core.py:1140", err.Error())
	p.log.raw("RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}")
	return exitFailed
}
