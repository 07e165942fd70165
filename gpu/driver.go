package gpu

import (
	"context"
	"time"
)

// driver is what ServeNVML needs of NVML. nvml.go implements it on go-nvml,
// nvml_stub.go refuses where there is no cgo. Methods are called from one
// goroutine; only the function that watcher returns runs beside them.
type driver interface {
	// open loads the library, initialises it and opens every GPU. Without the
	// persistence daemon the driver starts each GPU here, which takes seconds.
	open() error
	detect() (Inventory, error)
	sample(now time.Time) ([]Sample, error)
	// watcher returns a function that reports XIDs until ctx ends, or nil
	// where driver and GPUs offer no events.
	watcher() func(ctx context.Context, report func(XID))
}
