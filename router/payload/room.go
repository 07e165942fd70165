package payload

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"syscall"
)

// room is where a body lies: small ones in a pooled buffer, larger ones in pages
// mapped for them alone, the largest in a file without a name that is mapped.
//
// Mapped pages cost memory only once they are written. So a body can have all
// the room that it may need at once, whatever length a client declares; it is
// not copied while it grows, leaves no garbage, and what it took goes back to
// the system with it. Pages of a file can be written out when memory is short.
//
// The zero room is empty.
type room struct {
	buffer *bytes.Buffer
	mapped []byte
}

// small is the size up to which bodies lie in pooled buffers: fresh pages cost
// more time than reading what lies in them. A buffer grows by a quarter and slack.
const (
	small = 2 << 20
	slack = 256 << 10
)

func (r *room) free(pool *Pool) {
	if r.buffer != nil {
		pool.Put(r.buffer)
	}
	unmap(r.mapped)
	*r = room{}
}

// fill reads all of in, but at most one byte more than limits.Body, and returns
// it. declared is the length that the client says, -1 unknown.
func (r *room) fill(in io.Reader, declared int64, limits Limits, pool *Pool) ([]byte, error) {
	r.buffer = pool.Get()
	data := r.buffer.AvailableBuffer()
	for {
		if len(data) == cap(data) {
			if int64(len(data)) > limits.Body {
				return data, nil
			}
			more, err := r.grow(data, declared, limits, pool)
			if err != nil {
				return data, err
			}
			data = more
		}
		n, err := in.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		if err == io.EOF {
			return data, nil
		}
		if err != nil {
			return data, err
		}
	}
}

// grow returns data with more room behind them.
func (r *room) grow(data []byte, declared int64, limits Limits, pool *Pool) ([]byte, error) {
	size, place := next(int64(len(data)), declared, limits)
	if place == inBuffer {
		more := append(make([]byte, 0, size), data...)
		*r.buffer = *bytes.NewBuffer(more[:0])
		return more, nil
	}
	mapped, err := mapPages(place, size, limits.Dir)
	if err != nil {
		return nil, err
	}
	n := copy(mapped, data)
	r.free(pool)
	r.mapped = mapped
	return mapped[:n], nil
}

// place is where a body lies.
type place int

const (
	inBuffer place = iota
	inMemory
	inFile
)

// next is how much room to make for a body of which have bytes have come and
// fill all that there was, and where. One byte more than a body needs finds its
// end without another round.
func next(have, declared int64, limits Limits) (size int64, where place) {
	most := limits.Body + 1
	spool := limits.Spool
	if spool <= 0 {
		spool = math.MaxInt64
	}
	switch {
	case declared >= have && declared < most:
		size = declared + 1
	case have < small:
		size = min(have+have/4+slack, most)
	case have < spool:
		size = min(spool, most)
	default:
		size = most
	}
	switch {
	case size <= small+1:
		return max(size, bytes.MinRead), inBuffer
	case size <= spool:
		return size, inMemory
	}
	return size, inFile
}

// mapPages maps room in a file, or in memory when that is wanted or there can
// be no file: a full disk stops no request.
func mapPages(where place, size int64, dir string) ([]byte, error) {
	if where == inFile {
		if b, err := mapFile(dir, size); err == nil {
			return b, nil
		}
	}
	return mapMemory(size)
}

func mapMemory(size int64) ([]byte, error) {
	b, err := syscall.Mmap(-1, 0, int(size), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON|syscall.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("no memory for a body of %d MiB: %w", size>>20, err)
	}
	return b, nil
}

// mapFile maps a file that has lost its name already, so that it goes with the
// mapping, whatever ends this process. Its blocks are there before anything is
// written: a page without one would end the process when the disk is full.
func mapFile(dir string, size int64) ([]byte, error) {
	f, err := os.CreateTemp(dir, "warden-body-*")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := os.Remove(f.Name()); err != nil {
		return nil, err
	}
	if err := syscall.Fallocate(int(f.Fd()), 0, 0, size); err != nil {
		return nil, os.NewSyscallError("fallocate", err)
	}
	return syscall.Mmap(int(f.Fd()), 0, int(size), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
}

// CheckDir says why no large body could lie in a file in dir, "" being
// os.TempDir(). It leaves nothing there.
func CheckDir(dir string) error {
	b, err := mapFile(dir, int64(os.Getpagesize()))
	if err != nil {
		return fmt.Errorf("no file for a large request body can be made: %w", err)
	}
	unmap(b)
	return nil
}

func unmap(b []byte) {
	if b != nil {
		// Munmap fails only for what Mmap did not return.
		_ = syscall.Munmap(b)
	}
}
