package plan

import (
	"context"
	"errors"
	"time"

	"github.com/lm-warden/warden/cmd/internal/self"
	"github.com/lm-warden/warden/gpu"
)

// Detect asks NVML once, through its child process.
func Detect(ctx context.Context) (gpu.Inventory, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	source := gpu.NewChild(gpu.ChildOptions{Argv: self.Argv(self.NVML)})
	inv, err := source.Detect(ctx)
	return inv, errors.Join(err, source.Close())
}
