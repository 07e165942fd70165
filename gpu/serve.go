package gpu

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// ServeNVML is the body of the hidden sub-command that Child starts: it loads
// NVML (libraryPath, or the usual places when empty), then answers requests
// from in on out, one JSON value a line, until in ends or ctx is done.
//
// It returns without waiting for a call that hangs in the driver, so the
// process must exit afterwards. It never calls nvmlShutdown: that may hang
// too, and the kernel releases everything anyway.
func ServeNVML(ctx context.Context, in io.Reader, out io.Writer, libraryPath string) error {
	return serve(ctx, in, out, newDriver(libraryPath))
}

func serve(ctx context.Context, in io.Reader, out io.Writer, d driver) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &server{driver: d, out: json.NewEncoder(out)}
	requests := make(chan request)
	read := make(chan error, 1)
	go func() { read <- readRequests(ctx, in, requests) }()
	answered := make(chan error, 1)
	go func() { answered <- s.answer(ctx, requests) }()
	select {
	case err := <-read:
		return err
	case err := <-answered:
		return err
	case <-ctx.Done():
		return nil
	}
}

// readRequests hands on what the parent asks. The end of input means that the
// parent is gone: nil.
func readRequests(ctx context.Context, in io.Reader, requests chan<- request) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var r request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return fmt.Errorf("cannot read a request for NVML: %w", err)
		}
		select {
		case requests <- r:
		case <-ctx.Done():
			return nil
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("cannot read requests for NVML: %w", err)
	}
	return nil
}

// server is the child's side of the protocol.
type server struct {
	driver driver

	mu  sync.Mutex // guards out: answers and XIDs come from two goroutines
	out *json.Encoder
}

func (s *server) write(m message) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.out.Encode(m); err != nil {
		return fmt.Errorf("cannot answer warden: %w", err)
	}
	return nil
}

// answer opens the driver, greets, and then serves one request after another.
func (s *server) answer(ctx context.Context, requests <-chan request) error {
	if err := s.driver.open(); err != nil {
		// The parent learns why from the greeting; the child has no more to say.
		return s.write(message{Error: asNVMLError(err)})
	}
	if err := s.write(message{Ready: true}); err != nil {
		return err
	}
	if watch := s.driver.watcher(); watch != nil {
		var watching sync.WaitGroup
		defer watching.Wait()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		watching.Go(func() {
			watch(ctx, func(x XID) {
				// A failed write means that the parent is gone, which ends in
				// readRequests; there is nobody left to tell.
				_ = s.write(message{XID: &x})
			})
		})
	}
	for {
		select {
		case r := <-requests:
			if err := s.write(s.perform(r)); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// perform does one operation.
func (s *server) perform(r request) message {
	m := message{ID: r.ID}
	switch r.Op {
	case opDetect:
		inv, err := s.driver.detect()
		if err != nil {
			m.Error = asNVMLError(err)
			return m
		}
		m.Inventory = &inv
	case opSample:
		samples, err := s.driver.sample(time.Now())
		if err != nil {
			m.Error = asNVMLError(err)
			return m
		}
		m.Samples = samples
	default:
		m.Error = nvmlError(CodeNoSuchFunction, string(r.Op), "warden asked for an operation that its NVML child does not know")
	}
	return m
}

// asNVMLError keeps the typed error for the wire.
func asNVMLError(err error) *NVMLError {
	if e, ok := errors.AsType[*NVMLError](err); ok {
		return e
	}
	return nvmlError(CodeUnknown, "", err.Error())
}
