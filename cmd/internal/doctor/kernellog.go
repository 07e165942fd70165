package doctor

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/lm-warden/warden/gpu/xid"
)

// Kernel is what the kernel's log says of the GPUs.
type Kernel struct {
	XIDs []xid.Logged // oldest first
	Err  error        // fs.ErrPermission where this user may not read it
}

// maxRecords bounds a read of the log: its buffer has room for some 10,000.
const maxRecords = 1 << 17

// LookAtKernelLog reads the faults out of the records at path (/dev/kmsg), up to
// the present.
func LookAtKernelLog(path string) Kernel {
	// Not os.Open: its file would wait for the next record at the end.
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return Kernel{Err: fmt.Errorf("%s: %w", path, err)}
	}
	defer syscall.Close(fd)
	return readRecords(func(b []byte) (int, error) { return syscall.Read(fd, b) })
}

// readRecords reads one record at a time, as the device gives them.
func readRecords(read func([]byte) (int, error)) (k Kernel) {
	record := make([]byte, 8192) // the kernel's own limit of one
	for range maxRecords {
		n, err := read(record)
		switch {
		case errors.Is(err, syscall.EPIPE): // overwritten before it was read: the next one follows
			continue
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EAGAIN), err == nil && n == 0:
			return k
		case err != nil:
			k.Err = err
			return k
		}
		if x, ok := xid.ParseRecord(string(record[:n])); ok {
			k.XIDs = append(k.XIDs, x)
		}
	}
	return k
}
