package payload

import (
	"context"
	"io"
	"time"
)

// Patient reads from a client that may be slow but not idle. Without a
// limit a client could hold a connection and its buffer open for ever by
// sending nothing.
type Patient struct {
	io.Reader
	// Context ends the reading.
	Context context.Context
	// ReadBy sets the deadline for reads.
	ReadBy func(time.Time)
	// Patience is how long the client may send nothing.
	Patience time.Duration

	deadline time.Time
}

func (r *Patient) Read(to []byte) (int, error) {
	if err := r.Context.Err(); err != nil {
		return 0, err
	}
	if limit := time.Now().Add(r.Patience); limit.Sub(r.deadline) > time.Second {
		r.deadline = limit
		r.ReadBy(limit)
	}
	return r.Reader.Read(to)
}
