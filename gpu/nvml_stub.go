//go:build !cgo

package gpu

import (
	"context"
	"time"
)

// newDriver without cgo: go-nvml does not compile, so there is nothing to ask.
func newDriver(string) driver { return noDriver{} }

type noDriver struct{}

func (noDriver) open() error                        { return nvmlError(CodeNoCGO, "", "") }
func (noDriver) detect() (Inventory, error)         { return Inventory{}, nvmlError(CodeNoCGO, "", "") }
func (noDriver) sample(time.Time) ([]Sample, error) { return nil, nvmlError(CodeNoCGO, "", "") }
func (noDriver) watcher() func(context.Context, func(XID)) {
	return nil
}
