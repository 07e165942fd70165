package scan

// mark marks a block, 16 bytes at a time. It needs no more than every amd64
// processor has (SSE2); Go has no words for it.
//
//go:noescape
func mark(b *[block]byte, m *marks)
