//go:build race

package socket

import "syscall"

// Read is as in call.go.
func Read(fd uintptr, p []byte) (int, error) { return again(syscall.Read, fd, p) }

// Write is as in call.go.
func Write(fd uintptr, p []byte) (int, error) { return again(syscall.Write, fd, p) }

func again(call func(int, []byte) (int, error), fd uintptr, p []byte) (int, error) {
	for {
		n, err := call(int(fd), p)
		if err == syscall.EINTR {
			continue
		}
		return max(n, 0), err
	}
}
