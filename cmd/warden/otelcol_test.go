package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

var collectorProgram = flag.String("collector", "", "an OpenTelemetry Collector: scripts/test-otel.sh builds one")

// otelcol is a real OpenTelemetry Collector at one address, which may be started
// and ended any number of times.
type otelcol struct {
	t       *testing.T
	address string
	file    string // what it got, if it keeps it
	config  string
	process *exec.Cmd
	ended   chan struct{}
}

// exporting is a Collector's configuration. It is told nothing but its address
// and where spans go.
const exporting = `
receivers: {otlp: {protocols: {http: {endpoint: "%s"}}}}
exporters: {%s}
service:
  telemetry: {metrics: {level: none}}
  pipelines: {traces: {receivers: [otlp], exporters: [%s]}}
`

// newCollector makes one that keeps what it gets, in a file of OTLP in JSON.
func newCollector(t *testing.T) *otelcol {
	c := &otelcol{t: t, address: freeAddress(t), file: filepath.Join(t.TempDir(), "spans.json")}
	c.config = fmt.Sprintf(exporting, c.address, fmt.Sprintf("file: {path: %q, flush_interval: 50ms}", c.file), "file")
	return c
}

// newRelay makes one that hands everything on at once, and answers with what it
// is answered.
func newRelay(t *testing.T, to string) *otelcol {
	c := &otelcol{t: t, address: freeAddress(t)}
	next := fmt.Sprintf("otlp_http: {endpoint: %q, sending_queue: {enabled: false}, retry_on_failure: {enabled: false}}", "http://"+to)
	c.config = fmt.Sprintf(exporting, c.address, next, "otlp_http")
	return c
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func (c *otelcol) start() {
	c.t.Helper()
	path := filepath.Join(c.t.TempDir(), "config.yaml")
	writeFile(c.t, path, c.config)
	output := &syncBuffer{}
	c.process = exec.Command(*collectorProgram, "--config", path)
	c.process.Stdout, c.process.Stderr = output, output
	if err := c.process.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.ended = make(chan struct{})
	go func(process *exec.Cmd, ended chan struct{}) {
		defer close(ended)
		_ = process.Wait() // what it said is shown
	}(c.process, c.ended)
	c.t.Cleanup(c.stop)
	await(c.t, 30*time.Second, "the Collector is ready", func() bool {
		select {
		case <-c.ended:
			c.t.Fatalf("the Collector has ended:\n%s", output)
		default:
		}
		return strings.Contains(output.String(), "Everything is ready")
	})
}

// stop ends it, frozen or not.
func (c *otelcol) stop() {
	_ = c.process.Process.Kill() // it may have ended
	<-c.ended
}

func (c *otelcol) signal(s syscall.Signal) {
	c.t.Helper()
	if err := c.process.Process.Signal(s); err != nil {
		c.t.Fatal(err)
	}
}

// arrived is a span as the Collector writes it.
type arrived struct {
	TraceID string `json:"traceId"`
	Parent  string `json:"parentSpanId"`
	Name    string
	Kind    int
	Start   string `json:"startTimeUnixNano"`
	End     string `json:"endTimeUnixNano"`
	Attrs   pairs  `json:"attributes"`
	Events  []struct {
		Name string
		Time string `json:"timeUnixNano"`
	}
	Resource pairs  `json:"-"`
	Scope    string `json:"-"`
}

type pairs []struct {
	Key   string
	Value map[string]any
}

// of is an attribute's value, nil without.
func (p pairs) of(key string) any {
	for _, a := range p {
		if a.Key == key {
			for _, v := range a.Value { // one: intValue, stringValue, ...
				return v
			}
		}
	}
	return nil
}

// spans reads all that has come so far.
func (c *otelcol) spans() (all []arrived) {
	c.t.Helper()
	content, err := os.ReadFile(c.file)
	if err != nil {
		return nil // nothing yet
	}
	lines := bufio.NewScanner(bytes.NewReader(content))
	lines.Buffer(nil, len(content)+1)
	for lines.Scan() {
		var batch struct {
			ResourceSpans []struct {
				Resource   struct{ Attributes pairs }
				ScopeSpans []struct {
					Scope struct{ Name string }
					Spans []arrived
				}
			}
		}
		if err := json.Unmarshal(lines.Bytes(), &batch); err != nil {
			return nil // the last line is being written
		}
		for _, r := range batch.ResourceSpans {
			for _, s := range r.ScopeSpans {
				for _, span := range s.Spans {
					span.Resource, span.Scope = r.Resource.Attributes, s.Scope.Name
					all = append(all, span)
				}
			}
		}
	}
	return all
}
