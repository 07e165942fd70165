package realladder

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/lm-warden/warden/cmd/internal/proxies"
)

// half are the cores that one of the two engines has for itself.
func (b *bed) half() []int { return b.machine.Cores[:max(1, len(b.machine.Cores)/replicas)] }

// versions asks everything that takes part for its version.
func (b *bed) versions(ctx context.Context) map[string]string {
	out := b.home.Versions(ctx, "haproxy", "vllm-router", "smg")
	out["vllm"] = b.install.Version
	out["warden"] = proxies.WardenVersion(ctx, b.Warden)
	return out
}

func (b *bed) get(ctx context.Context, url string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := b.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", url, resp.Status)
	}
	return io.ReadAll(resp.Body)
}
