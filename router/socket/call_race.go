//go:build race

package socket

import "syscall"

// Read is as in call.go.
func Read(fd uintptr, p []byte) (int, error) { return again(syscall.Read, fd, p) }

// Write is as in call.go.
func Write(fd uintptr, p []byte) (int, error) { return again(syscall.Write, fd, p) }

// Writev is as in call.go, one piece after another.
func Writev(fd uintptr, pieces [][]byte) (int, error) {
	sum := 0
	for _, piece := range pieces {
		if len(piece) == 0 {
			continue
		}
		n, err := Write(fd, piece)
		if sum += n; err != nil && sum == 0 {
			return 0, err
		}
		if n < len(piece) {
			break
		}
	}
	return sum, nil
}

func again(call func(int, []byte) (int, error), fd uintptr, p []byte) (int, error) {
	for {
		n, err := call(int(fd), p)
		if err == syscall.EINTR {
			continue
		}
		return max(n, 0), err
	}
}
