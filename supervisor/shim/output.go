package shim

import (
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"
)

const (
	// pipeSize is what the kernel is asked to hold of the engine's output, in bytes.
	pipeSize = 1 << 20
	// queueSize bounds the lines that wait for the disk, in bytes. Beyond it lines are dropped and counted: an engine
	// must never wait for a slow disk.
	queueSize = 1 << 20
	lineCost  = 64 // bytes a queued line takes beside its text
	// keptLines is how many lines a client that comes later can still get from memory.
	keptLines = 500
)

// drain reads the engine's output until every process of its tree has closed it, and hands each line to line.
// It does nothing that waits for a disk or for a client.
func drain(pipe io.Reader, generation uint64, hide redactor, line func(Line)) error {
	var split splitter
	emit := func(text string, redraw bool) {
		line(Line{At: time.Now(), Generation: generation, Text: hide.apply(text), Redraw: redraw})
	}
	block := make([]byte, 64<<10)
	for {
		n, err := pipe.Read(block)
		split.write(block[:n], time.Now(), emit)
		if err == io.EOF {
			split.finish(emit)
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// diskQueue carries lines from drain to the log file.
type diskQueue struct {
	mu     sync.Mutex
	wake   *sync.Cond
	lines  []Line
	bytes  int
	lost   uint64 // lines not written since the last successful write
	total  uint64 // lines lost altogether
	closed bool
}

func newDiskQueue() *diskQueue {
	q := &diskQueue{}
	q.wake = sync.NewCond(&q.mu)
	return q
}

// put queues a line, or drops it when the disk is too far behind. It never waits.
func (q *diskQueue) put(l Line) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.bytes+len(l.Text)+lineCost > queueSize {
		q.lose(1)
		return
	}
	q.lines = append(q.lines, l)
	q.bytes += len(l.Text) + lineCost
	q.wake.Signal()
}

func (q *diskQueue) lose(n uint64) {
	q.lost += n
	q.total += n
}

// close lets run end once everything queued is written.
func (q *diskQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.wake.Signal()
}

func (q *diskQueue) lostLines() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.total
}

// take waits for lines. It returns the number of lines lost before them; no lines mean the end.
func (q *diskQueue) take() ([]Line, uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.lines) == 0 && !q.closed {
		q.wake.Wait()
	}
	lines, lost := q.lines, q.lost
	q.lines, q.bytes, q.lost = nil, 0, 0
	return lines, lost
}

// run writes to the log until close. It tells of the first error only: a full disk fails every line.
func (q *diskQueue) run(file *logFile, log *slog.Logger) {
	failing := false
	for {
		lines, lost := q.take()
		if len(lines) == 0 {
			break
		}
		if lost > 0 {
			note := fmt.Sprintf("[warden: %d lines lost, the disk was too slow or full]", lost)
			lines = append([]Line{{At: lines[0].At, Generation: lines[0].Generation, Text: note}}, lines...)
		}
		for i, l := range lines {
			err := file.write(l)
			if err != nil && !failing {
				log.Error("engine log cannot be written; lines are lost until it can", "err", err)
			}
			failing = err != nil
			if failing {
				q.mu.Lock()
				q.lose(uint64(len(lines) - i))
				q.mu.Unlock()
				break
			}
		}
	}
	if err := file.close(); err != nil {
		log.Error("engine log was not closed", "err", err)
	}
}
