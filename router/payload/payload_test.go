package payload

import (
	"bytes"
	"testing"
)

// The payload's buffer is not given away while a transport still reads it.
func TestPayloadOutlivesItsReaders(t *testing.T) {
	buffer := bytes.NewBufferString("0123456789")
	p := &Payload{Bytes: buffer.Bytes(), buffer: buffer, pool: new(Pool)}
	p.refs.Store(1)
	reader := p.Send(p.Bytes)
	some := make([]byte, 4)
	if n, err := reader.Read(some); n != 4 || err != nil {
		t.Fatal(n, err)
	}
	p.Release()
	if buffer.Len() != 10 {
		t.Fatal("the buffer was reset under a reader")
	}
	for range 2 { // closing twice counts once
		if err := reader.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if buffer.Len() != 0 || p.refs.Load() != 0 {
		t.Errorf("after the last reader: %d bytes, %d references", buffer.Len(), p.refs.Load())
	}
	if n, err := reader.Read(some); n != 0 || err == nil {
		t.Errorf("a closed reader gave %d bytes, %v", n, err)
	}
}
