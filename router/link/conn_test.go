package link

import (
	"bytes"
	"net"
	"testing"
)

// A write that was cut anywhere goes on where it was cut.
func TestBehind(t *testing.T) {
	whole := []byte("abcdefg")
	for n := range len(whole) + 1 {
		pieces := net.Buffers{nil, []byte("abc"), {}, []byte("d"), []byte("efg"), nil}
		if got := bytes.Join(behind(pieces, n), nil); !bytes.Equal(got, whole[n:]) {
			t.Errorf("behind %d bytes: %q", n, got)
		}
	}
	if left := behind(net.Buffers{nil, {}}, 0); len(left) > 0 {
		t.Errorf("%d empty pieces are left: a write of them would not end", len(left))
	}
}
