package accesslog

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/lm-warden/warden/router/record"
)

// Options say where the lines go. All but Path may be zero.
type Options struct {
	// Path of the log; the file is its owner's alone.
	Path string
	// Size of a file before it is rotated, in bytes. Default 100 MB: about
	// 200,000 requests.
	Size int64
	// Keep is how many older files stay, as Path.1 and so on. Default 4.
	Keep int
	// Queue is how many requests may wait for a slow disk before lines are
	// dropped. Default 4096: a few MB.
	Queue int
	// Simulated marks every line: no real model answers.
	Simulated bool
	Log       *slog.Logger // default: discard
}

func (o Options) withDefaults() Options {
	if o.Size <= 0 {
		o.Size = 100_000_000
	}
	if o.Keep <= 0 {
		o.Keep = 4
	}
	if o.Queue <= 0 {
		o.Queue = 4096
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Log takes finished requests and writes them, in the order they ended. Make
// one with Open and call Run.
type Log struct {
	opts    Options
	file    *file
	queue   chan record.Record
	dropped atomic.Uint64
	failing bool // the last write failed; Run's alone
}

// Open opens the log: a path that cannot be written is an error now and not
// with the first request.
func Open(o Options) (*Log, error) {
	o = o.withDefaults()
	l := &Log{opts: o, file: &file{path: o.Path, size: o.Size, keep: o.Keep}, queue: make(chan record.Record, o.Queue)}
	if err := l.file.open(); err != nil {
		return nil, fmt.Errorf("cannot write the access log: %w", err)
	}
	return l, nil
}

// Add takes one finished request. It never waits: what finds the queue full
// is dropped and counted.
func (l *Log) Add(r record.Record) {
	select {
	case l.queue <- r:
	default:
		l.dropped.Add(1)
	}
}

// Dropped counts the lines that were not written.
func (l *Log) Dropped() uint64 { return l.dropped.Load() }

// batch bounds how many lines go to the disk in one write.
const batch = 256

// Run writes until ctx ends, then what is still queued.
func (l *Log) Run(ctx context.Context) error {
	buffer := make([]byte, 0, 64<<10)
	for {
		select {
		case r := <-l.queue:
			buffer = l.writeFrom(r, buffer[:0])
		case <-ctx.Done():
			for len(l.queue) > 0 {
				buffer = l.writeFrom(<-l.queue, buffer[:0])
			}
			return l.file.close()
		}
	}
}

// writeFrom writes r and whatever else is queued already, up to a batch.
func (l *Log) writeFrom(r record.Record, buffer []byte) []byte {
	lines := uint64(1)
	buffer = LineOf(r, l.opts.Simulated).appendTo(buffer)
	for len(l.queue) > 0 && lines < batch {
		buffer = LineOf(<-l.queue, l.opts.Simulated).appendTo(buffer)
		lines++
	}
	err := l.file.write(buffer)
	switch {
	case err != nil:
		l.dropped.Add(lines)
		if !l.failing {
			l.opts.Log.Warn("access log lines are dropped until it can be written again", "err", err)
		}
	case l.failing:
		l.opts.Log.Info("the access log is written again", "dropped", l.dropped.Load())
	}
	l.failing = err != nil
	return buffer
}
