package gpu

import (
	"context"
	"errors"
)

// Probe says whether a program that starts now can talk to the driver: a fresh
// child loads the library and opens the GPUs. A Child that has been running for
// long cannot tell: it goes on with the library it once loaded, also after an
// upgrade has put one on the disk that does not fit the kernel's module.
func Probe(ctx context.Context, opts ChildOptions) error {
	opts = opts.withDefaults()
	opts.Budget = opts.StartBudget // its one sample waits for the start
	child := NewChild(opts)
	_, err := child.Sample(ctx) // not Detect: who watches asks this twice a minute
	return errors.Join(err, child.Close())
}
