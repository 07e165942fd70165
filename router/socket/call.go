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

// Writev writes what there is room for of several pieces, at most gathered of
// them.
func Writev(fd uintptr, pieces [][]byte) (int, error) {
	var list [gathered]syscall.Iovec
	n := min(len(pieces), gathered)
	for i, piece := range pieces[:n] {
		list[i].Base = unsafe.SliceData(piece)
		list[i].SetLen(len(piece))
	}
	return retry(syscall.SYS_WRITEV, fd, unsafe.Pointer(&list), n)
}

// gathered is more pieces than a request with edits has.
const gathered = 16

func call(number, fd uintptr, p []byte) (int, error) {
	return retry(number, fd, unsafe.Pointer(unsafe.SliceData(p)), len(p))
}

// retry makes a call again when a signal came first.
func retry(number, fd uintptr, at unsafe.Pointer, size int) (int, error) {
	for {
		n, _, errno := syscall.RawSyscall(number, fd, uintptr(at), uintptr(size))
		switch errno {
		case 0:
			return int(n), nil
		case syscall.EINTR:
		default:
			return 0, errno
		}
	}
}
