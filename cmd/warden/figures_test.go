package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lm-warden/warden/supervisor/control"
	"github.com/lm-warden/warden/supervisor/events"
)

// The figures that the supervision of warden is held to, and where each is
// proven. Those of this folder run the built program with real processes; -rounds
// multiplies their rounds, as `make figures` does.
//
//	 1 one of four killed at 128 streams     TestFigureKillUnderStreams
//	 2 its death is noticed                  TestFigureDeathIsNoticed
//	 3 it serves again, its sessions spread  TestFigureRestart, TestFigureRestartWaitsForMemory
//	 4 no orphans                            TestFigureNoOrphans, TestFigureNoOrphansWithoutInit,
//	                                         supervisor: TestRealStartAbortedAtAnyMomentLeavesNothing, shim: tree_test.go
//	 5 warden killed                         TestFigureWardenKilled
//	 6 upgrade                               TestFigureUpgrade, TestUpgradeFailsNothing
//	 7 hang behind a good /health, stalls    TestFigureHang; in full length and virtual time supervisor:
//	                                         TestHangBehindAGoodHealthIsFound, TestStallOfAMinuteRestartsNothing
//	 8 crash loop                            TestFigureCrashLoop; supervisor: TestCrashLoopEndsParked; the bound of the
//	                                         log shim: TestLogIsRotatedAndBounded
//	10 no leaks                              TestFigureNoLeaks
//	18 NVML faults                           TestFigureNVML, TestFigureNVMLWithoutSymbols; gpu: nvml_test.go
//	19 disk full, read-only state directory  TestFigureFullDisk, TestFigureReadOnlyState
//	20 clock jumps, SIGSTOP                  TestFigureFrozen; supervisor: TestClockJumps
//	21 soak                                  TestSoak (`make soak`)
//	24 no file descriptors left              TestFigureNoDescriptors
var roundsFactor = flag.Int("rounds", 1, "how many times as many rounds as usual the figures are proven with")

func rounds(n int) int { return n * *roundsFactor }

// call is one streamed request as its client saw it.
type call struct {
	answer
	began, first, ended time.Time // first is zero when no byte came
}

// complete says whether the API's own end came, without an error before it.
func (c call) complete() bool {
	return c.err == nil && c.code == http.StatusOK && strings.HasSuffix(c.body, "data: [DONE]\n\n") && !strings.Contains(c.body, `"error"`)
}

func (c call) String() string {
	tail := c.body
	if len(tail) > 160 {
		tail = "..." + tail[len(tail)-160:]
	}
	return fmt.Sprintf("on %s (%s): code %d, error %v, first byte after %s, body %q", c.replica, c.reason, c.code, c.err, c.wait(), tail)
}

// wait is the time to the first byte.
func (c call) wait() time.Duration { return c.first.Sub(c.began) }

// client makes load: it has its own connections, so that tests do not wait for
// each other's.
type client struct {
	*running
	http *http.Client
}

func (w *running) newClient() *client {
	transport := &http.Transport{MaxIdleConnsPerHost: 256}
	w.t.Cleanup(transport.CloseIdleConnections)
	return &client{running: w, http: &http.Client{Transport: transport}}
}

// stream sends a streamed chat request; begin, where not nil, is called at the
// first byte.
func (c *client) stream(ctx context.Context, session, text string, maxTokens int, begin func()) (result call) {
	body := fmt.Sprintf(`{"model":"qwen3-4b","stream":true,"max_tokens":%d,"ignore_eos":true,"messages":[{"role":"user","content":%q}]}`, maxTokens, text)
	result.began = time.Now()
	defer func() { result.ended = time.Now() }()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		result.err = err
		return result
	}
	req.Header.Set("Content-Type", "application/json")
	if session != "" {
		req.Header.Set("X-Session-ID", session)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		result.err = err
		return result
	}
	defer resp.Body.Close()
	result.code, result.replica, result.reason = resp.StatusCode, resp.Header.Get("X-Warden-Replica"), resp.Header.Get("X-Warden-Reason")
	var one [1]byte
	if _, err := io.ReadFull(resp.Body, one[:]); err != nil {
		result.err = err
		return result
	}
	result.first = time.Now()
	if begin != nil {
		begin()
	}
	rest, err := io.ReadAll(resp.Body)
	result.body, result.err = string(one[:])+string(rest), err
	return result
}

// calls collects what many goroutines did.
type calls struct {
	mu  sync.Mutex
	all []call
	wg  sync.WaitGroup
}

func (c *calls) add(one call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, one)
}

// wait returns them all once every goroutine of wg has ended.
func (c *calls) wait() []call {
	c.wg.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all
}

// trickle sends short requests of new conversations, one every pace, until ctx
// ends. What ctx cut is left out.
func (c *client) trickle(ctx context.Context, pace time.Duration, name string) *calls {
	var result calls
	result.wg.Go(func() {
		tick := time.NewTicker(pace)
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			result.wg.Go(func() {
				one := c.stream(ctx, fmt.Sprintf("%s-%d", name, n), "hello", 2, nil)
				if ctx.Err() == nil || one.complete() {
					result.add(one)
				}
			})
		}
	})
	return &result
}

// quantile of some durations; 0 of none.
func quantile(all []time.Duration, q float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// timely proves a bar that a busy machine can miss without a fault: it counts
// as missed when it is missed twice.
func timely(t *testing.T, measure func() error) {
	t.Helper()
	first := measure()
	if first == nil {
		return
	}
	t.Logf("once more, for the machine may have been busy: %v", first)
	if err := measure(); err != nil {
		t.Error(err)
	}
}

// pause lets time pass where the passing of time is what is tested.
func pause(d time.Duration) { <-time.After(d) }

// relatives are the living processes that a test's warden started, whatever
// they call themselves: its directory is in the command line or the environment
// of each. The warden itself is one of them.
func relatives(home string) map[int]string {
	found := map[int]string{}
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		line, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		env, _ := os.ReadFile(filepath.Join(dir, "environ"))
		if pid == os.Getpid() || !bytes.Contains(line, []byte(home)) && !bytes.Contains(env, []byte(home)) {
			continue
		}
		if fields := strings.Fields(afterName(dir)); len(fields) > 0 && fields[0] != "Z" && fields[0] != "X" {
			found[pid] = strings.TrimSpace(strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return found
}

// afterName is what follows the program's name in /proc/PID/stat.
func afterName(dir string) string {
	content, _ := os.ReadFile(filepath.Join(dir, "stat"))
	return string(content[bytes.LastIndexByte(content, ')')+1:])
}

// relative finds one process by a part of its command line.
func relative(t *testing.T, home string, parts ...string) int {
	t.Helper()
	all := relatives(home)
	for _, pid := range slices.Sorted(maps.Keys(all)) {
		if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(all[pid], part) }) {
			return pid
		}
	}
	t.Fatalf("no process %q in %v", parts, all)
	return 0
}

// coreOf is the EngineCore of a simulated engine whose tree is not flat.
func coreOf(t *testing.T, home string, engine int) int {
	t.Helper()
	for pid, command := range relatives(home) {
		fields := strings.Fields(afterName(fmt.Sprintf("/proc/%d", pid)))
		if strings.HasPrefix(command, "SIMULATED::EngineCore") && len(fields) > 1 && fields[1] == strconv.Itoa(engine) {
			return pid
		}
	}
	t.Fatalf("engine %d has no EngineCore in %v", engine, relatives(home))
	return 0
}

// goneWithin waits until no relative of home is left.
func goneWithin(home string, limit time.Duration) error {
	deadline := time.Now().Add(limit)
	for {
		left := relatives(home)
		if len(left) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("left %s after the end: %v", limit, left)
		}
		pause(10 * time.Millisecond)
	}
}

// await waits for something that no stream tells.
func await(t *testing.T, limit time.Duration, what string, holds func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	for !holds() {
		if time.Since(began) > limit {
			t.Fatalf("%s: not within %s", what, limit)
		}
		pause(5 * time.Millisecond)
	}
	return time.Since(began)
}

// poll is waitFor for what may pass between two statuses of the stream.
func (w *running) poll(what string, holds func(control.Status) bool) control.Status {
	w.t.Helper()
	var last control.Status
	await(w.t, time.Minute, what, func() bool {
		var err error
		last, err = w.client.Status(w.t.Context())
		return err == nil && holds(last)
	})
	return last
}

// eventLog collects the events of a warden until the test ends.
type eventLog struct {
	mu  sync.Mutex
	all []events.Event
}

func (w *running) watchEvents() *eventLog {
	var log eventLog
	ctx, cancel := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	ended.Go(func() {
		for msg, err := range w.client.Watch(ctx) {
			if err != nil {
				return
			}
			if msg.Event != nil {
				log.mu.Lock()
				log.all = append(log.all, *msg.Event)
				log.mu.Unlock()
			}
		}
	})
	w.t.Cleanup(func() { cancel(); ended.Wait() })
	return &log
}

// find returns the first event after a moment that match accepts.
func (l *eventLog) find(after time.Time, match func(events.Event) bool) (events.Event, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.all {
		if e.At.After(after) && match(e) {
			return e, true
		}
	}
	return events.Event{}, false
}
