// Package testengine is an engine for tests: a process with the endpoints that the supervisor asks, the process trees
// that real engines make, and faults on demand. Test binaries run it by executing themselves (see Main).
package testengine

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Command is the first argument that makes a test binary behave as an engine.
const Command = "__testengine"

// Main runs the engine; args follow Command.
//
//	--socket PATH     listen there after --load; empty = never
//	--load D          time before it listens
//	--children LIST   helpers to start: group, setsid, double (a setsid grandchild whose parent has ended), tracker (as
//	                  Python's: it writes the file "tidied" into its directory once the engine has ended, and ends)
//	--ignore-term     SIGTERM does nothing
//	--exit-at-once N  print --say and exit with N
//	--say TEXT        lines to print, separated by |
//	--name NAME       served model
func Main(args []string) int {
	flags := flag.NewFlagSet(Command, flag.ContinueOnError)
	socket := flags.String("socket", "", "")
	load := flags.Duration("load", 0, "")
	children := flags.String("children", "", "")
	ignoreTerm := flags.Bool("ignore-term", false, "")
	exitAtOnce := flags.Int("exit-at-once", -1, "")
	say := flags.String("say", "", "")
	name := flags.String("name", "m", "")
	helper := flags.Bool("helper", false, "")
	parent := flags.Bool("parent-of-setsid", false, "")
	tracker := flags.Bool("tracker", false, "")
	if flags.Parse(args) != nil {
		return 2
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	switch {
	case *helper: // lives until it is killed, as an orphaned vLLM core does
		for range signals {
		}
	case *parent:
		return startHelper("setsid")
	case *tracker:
		return tidyUp()
	}
	fmt.Print(strings.ReplaceAll(*say, "|", "\n") + "\n")
	if *exitAtOnce >= 0 {
		return *exitAtOnce
	}
	for shape := range strings.SplitSeq(*children, ",") {
		if code := startHelper(shape); code != 0 {
			return code
		}
	}
	time.Sleep(*load)
	e := &engine{name: *name, exit: make(chan int, 1)}
	if *socket != "" {
		listener, err := net.Listen("unix", *socket)
		if err != nil {
			fmt.Println(err)
			return 1
		}
		go func() { _ = http.Serve(listener, e.mux()) }() // ends with the process
	}
	fmt.Println("serving")
	for {
		select {
		case code := <-e.exit:
			return code
		case <-signals:
			if !*ignoreTerm {
				return 0
			}
		}
	}
}

func startHelper(shape string) int {
	if shape == "" {
		return 0
	}
	arg, attr := "--helper", &syscall.SysProcAttr{}
	switch shape {
	case "setsid":
		attr.Setsid = true
	case "double":
		arg = "--parent-of-setsid"
	case "tracker":
		return startTracker()
	}
	cmd := exec.Command("/proc/self/exe", Command, arg)
	cmd.SysProcAttr = attr
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr // helpers hold the output open, as real ones do
	if err := cmd.Start(); err != nil {
		fmt.Println(err)
		return 1
	}
	if shape == "double" {
		_ = cmd.Wait()
	}
	return 0
}

// startTracker starts a helper that reads a pipe. The other end is a bare number, which nothing closes as long as the
// engine lives.
func startTracker() int {
	var pipe [2]int
	if err := syscall.Pipe2(pipe[:], syscall.O_CLOEXEC); err != nil {
		fmt.Println(err)
		return 1
	}
	r := os.NewFile(uintptr(pipe[0]), "tracker")
	defer r.Close()
	cmd := exec.Command("/proc/self/exe", Command, "--tracker", "from multiprocessing.resource_tracker import main")
	cmd.Stdin = r
	if err := cmd.Start(); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// tidyUp takes longer than killing the whole tree at once would.
func tidyUp() int {
	_, _ = io.Copy(io.Discard, os.Stdin)
	time.Sleep(100 * time.Millisecond)
	if os.WriteFile("tidied", nil, 0o600) != nil {
		return 1
	}
	return 0
}

type engine struct {
	name   string
	exit   chan int
	health atomic.Int64 // status to answer; 0 = 200
	tokens atomic.Int64
	frozen sync.RWMutex // held while hung
}

func (e *engine) mux() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		if status := e.health.Load(); status != 0 {
			w.WriteHeader(int(status))
		}
	})
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"data": []map[string]any{{"id": e.name, "max_model_len": 4096}}})
	})
	mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"version": "0.0-test"})
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "tokens %d\n", e.tokens.Load())
	})
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, _ *http.Request) {
		e.frozen.RLock()
		defer e.frozen.RUnlock()
		e.tokens.Add(1)
		answer(w, map[string]any{"object": "chat.completion"})
	})
	mux.HandleFunc("POST /fault", e.fault)
	return mux
}

// fault: ?health=STATUS, ?exit=CODE, ?hang=1.
func (e *engine) fault(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if v, err := strconv.Atoi(q.Get("health")); err == nil {
		e.health.Store(int64(v))
	}
	if q.Get("hang") != "" {
		e.frozen.Lock()
	}
	if v, err := strconv.Atoi(q.Get("exit")); err == nil {
		e.exit <- v
	}
	w.WriteHeader(http.StatusNoContent)
}

func answer(w http.ResponseWriter, v any) {
	_ = json.NewEncoder(w).Encode(v)
}

// Fault orders a fault of the engine that listens on socket.
func Fault(ctx context.Context, socket, query string) error {
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}, Timeout: 5 * time.Second}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://engine/fault?"+query, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}
