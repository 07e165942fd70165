//go:build !amd64

package scan

// mark marks a block.
func mark(b *[block]byte, m *marks) { markPlain(b, m) }
