package benchpath

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/lm-warden/warden/cmd/internal/process"
	"github.com/lm-warden/warden/cmd/internal/proxies"
)

// Options say what to measure.
type Options struct {
	Warden string // the built program
	// Engine is a program that answers `serve` as [ParseEngine] says: this
	// package's own, under whatever name.
	Engine string
	Peers  string // folder of installed routers
	Arms   []string
	Rounds int
	// Length is the time that a cell's window is open; paced streams of 200
	// events leave less.
	Length time.Duration
	// Numbers of streams: paced, quiet, one after another with 60 kB, fast; and
	// sizes of bodies. Empty or 0 leaves that work out.
	Streams, Quiet []int
	Loop, Fast     int
	Bodies         []int
	Log            io.Writer // is told what happens; nil = nobody
}

// Defaults are the work of the published table.
func Defaults() Options {
	return Options{
		Rounds: 3, Length: 2 * time.Second, Streams: []int{1, 64, 256, 1000}, Quiet: []int{1000, 5000},
		Loop: firstByteLoad, Fast: fastStreams, Bodies: bodySizes(),
	}
}

const (
	replicas     = 2
	maxSequences = 1 << 14
	idleTime     = 2 * time.Second // for what an idle proxy takes
	pause        = 300 * time.Millisecond
	startLimit   = time.Minute
)

// bed is what all arms of a round share.
type bed struct {
	Options
	home    proxies.Home
	engines []engineProcess
}

type engineProcess struct {
	*process.Process
	url, socket string
}

func (b *bed) urls() (out []string) {
	for _, e := range b.engines {
		out = append(out, e.url)
	}
	return out
}

func (b *bed) sockets() (out []string) {
	for _, e := range b.engines {
		out = append(out, "unix:"+e.socket)
	}
	return out
}

// Run measures everything. What was measured before an error is returned with
// it.
func Run(ctx context.Context, o Options) (report Report, err error) {
	limit, err := raiseDescriptors()
	if err != nil {
		return report, err
	}
	machine, err := proxies.DescribeMachine()
	if err != nil {
		return report, err
	}
	c, err := newClock()
	if err != nil {
		return report, err
	}
	if o.Log == nil {
		o.Log = io.Discard
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	b := &bed{Options: o, home: proxies.Home{Peers: o.Peers, Client: client}}
	report = Report{Started: time.Now().UTC(), Machine: machine, Rounds: o.Rounds, WindowSeconds: o.Length.Seconds()}
	chosen, err := b.choose(&report)
	if err != nil {
		return report, err
	}
	dir, err := os.MkdirTemp("", "bp")
	if err != nil {
		return report, err
	}
	b.home.Dir = dir
	defer func() {
		if err != nil {
			fmt.Fprintf(o.Log, "the logs of the run are in %s\n", dir)
			return
		}
		err = os.RemoveAll(dir)
	}()
	b.versions(ctx, chosen, &report)
	todo := slices.DeleteFunc(works(o), func(w work) bool {
		short := w.descriptors() > limit
		if short {
			report.leaveOut(w.String(), fmt.Sprintf("needs %d file descriptors in one process, the limit is %d", w.descriptors(), limit))
		}
		return short
	})
	defer func() {
		for _, e := range b.engines {
			e.Stop(time.Second)
		}
	}()
	if err := b.startEngines(ctx); err != nil {
		return report, err
	}
	for round := range o.Rounds {
		if err := b.round(ctx, round, chosen, todo, c, &report); err != nil {
			return report, err
		}
	}
	return report, nil
}

// raiseDescriptors takes what the system allows, for this process and for those
// that it starts, and returns how many those are.
func raiseDescriptors() (uint64, error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, err
	}
	limit.Cur = limit.Max
	// Not x/sys's: only after this one does Go hand the limit on to children.
	return limit.Cur, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
}

// choose are the contenders asked for that are installed.
func (b *bed) choose(report *Report) (chosen []contender, err error) {
	all := contenders()
	for _, name := range b.Arms {
		if !slices.ContainsFunc(all, func(c contender) bool { return c.name == name }) {
			var names []string
			for _, c := range all {
				names = append(names, c.name)
			}
			return nil, fmt.Errorf("no arm is called %q: there are %s", name, strings.Join(names, ", "))
		}
	}
	for _, c := range all {
		switch {
		case len(b.Arms) > 0 && !slices.Contains(b.Arms, c.name):
		case c.program != "" && b.home.Find(c.program) == "":
			report.leaveOut(c.name, c.program+" is not installed")
		default:
			chosen = append(chosen, c)
		}
	}
	return chosen, nil
}

func (b *bed) versions(ctx context.Context, chosen []contender, report *Report) {
	var programs []string
	for _, c := range chosen {
		report.Arms = append(report.Arms, Arm{Name: c.name, LLM: c.llm})
		if c.program != "" {
			programs = append(programs, c.program)
		}
	}
	for name, v := range b.home.Versions(ctx, programs...) {
		report.Machine.Versions[name] = v
	}
	report.Machine.Versions["warden"] = proxies.WardenVersion(ctx, b.Warden)
}

// startEngines starts the engines of all arms but warden's, each on a port and
// a socket.
func (b *bed) startEngines(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for i := range replicas {
		address, err := process.FreeAddress()
		if err != nil {
			return err
		}
		host, port, _ := net.SplitHostPort(address)
		e := engineProcess{url: "http://" + address, socket: filepath.Join(b.home.Dir, "e"+strconv.Itoa(i)+".sock")}
		e.Process, err = process.Start(process.Command{
			Name: "engine" + strconv.Itoa(i), Dir: b.home.Dir,
			Argv: []string{b.Engine, "serve", modelName, "--host", host, "--port", port, "--uds", e.socket},
		})
		if err != nil {
			return err
		}
		b.engines = append(b.engines, e)
		if err := e.Await(ctx, "answered", process.Answers(b.home.Client, e.url+"/health")); err != nil {
			return err
		}
	}
	return nil
}

// round starts every proxy anew and gives them the same work, one after another
// and each second round the other way round: what changes with time hits all
// alike.
func (b *bed) round(ctx context.Context, round int, chosen []contender, todo []work, c clock, report *Report) (err error) {
	in := *b
	in.home.Dir = filepath.Join(b.home.Dir, "r"+strconv.Itoa(round))
	if err := os.Mkdir(in.home.Dir, 0o700); err != nil {
		return err
	}
	var arms []*arm
	defer func() {
		for _, a := range arms {
			err = errors.Join(err, a.stop())
		}
	}()
	start, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for _, c := range chosen {
		a, err := c.start(start, &in)
		switch {
		case err == nil:
			arms = append(arms, a)
		case c.name == wardenName || ctx.Err() != nil:
			return fmt.Errorf("%s: %w", c.name, err)
		default: // a peer that will not start is no reason to measure nothing
			report.leaveOut(c.name, err.Error())
		}
	}
	if err := rest(ctx, arms, report, round); err != nil {
		return err
	}
	if round%2 == 1 {
		slices.Reverse(arms)
	}
	for _, w := range todo {
		for _, a := range arms {
			if err := in.cell(ctx, w, a, round, c, report); err != nil {
				return fmt.Errorf("%s, %s: %w", a.name, w, err)
			}
		}
	}
	return nil
}

// rest finds out what the proxies take when there is nothing to do.
func rest(ctx context.Context, arms []*arm, report *Report, round int) error {
	if err := sleep(ctx, pause); err != nil {
		return err
	}
	for _, a := range arms {
		var err error
		if a.goroutines != nil {
			if a.freshGoroutines, err = a.goroutines(ctx); err != nil {
				return err
			}
		}
	}
	began := time.Now()
	for _, a := range arms {
		var err error
		if a.fresh, err = a.usage(); err != nil {
			return err
		}
	}
	if err := sleep(ctx, idleTime); err != nil {
		return err
	}
	for _, a := range arms {
		now, err := a.usage()
		if err != nil {
			return err
		}
		a.idle = (now.CPU - a.fresh.CPU).Seconds() / time.Since(began).Seconds()
		if a.run.Process != nil {
			report.Idle = append(report.Idle, Idle{Arm: a.name, Round: round, CPUSeconds: a.idle, RSSBytes: now.RSS})
		}
		a.fresh = now
	}
	return nil
}

// cell measures one arm under one work.
func (b *bed) cell(ctx context.Context, w work, a *arm, round int, c clock, report *Report) error {
	if err := sleep(ctx, pause); err != nil {
		return err
	}
	before := proxies.LoadAverage()
	cell, err := measure(ctx, w, a, b.Length, sessionsOf(len(report.Cells)), c)
	if err != nil {
		return err
	}
	cell.Round, cell.LoadAverage = round, before
	report.Cells = append(report.Cells, cell)
	fmt.Fprintf(b.Log, "round %d, %-46s %-11s %s\n", round+1, w, a.name, cell.brief())
	return nil
}

// sessionsOf numbers the first session of a cell so that no two cells share one.
func sessionsOf(cell int) int { return cell * maxSequences }
