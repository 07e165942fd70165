//go:build !race

package socket

import (
	"syscall"
	"unsafe"
)

// Read reads what there is from a socket in non-blocking mode, EAGAIN when
// there is nothing, 0 bytes at its end. p must not be empty.
func Read(fd uintptr, p []byte) (int, error) { return call(syscall.SYS_READ, fd, p) }

// Write writes what there is room for to a socket in non-blocking mode, EAGAIN
// when there is none.
func Write(fd uintptr, p []byte) (int, error) { return call(syscall.SYS_WRITE, fd, p) }

func call(number, fd uintptr, p []byte) (int, error) {
	for {
		n, _, errno := syscall.RawSyscall(number, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
		switch errno {
		case 0:
			return int(n), nil
		case syscall.EINTR:
		default:
			return 0, errno
		}
	}
}
