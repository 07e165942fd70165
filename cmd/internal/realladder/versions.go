package realladder

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
)

// half are the cores that one of the two engines has for itself.
func (b *bed) half() []int { return b.machine.Cores[:max(1, len(b.machine.Cores)/replicas)] }

// versions asks everything that takes part for its version.
func (b *bed) versions(ctx context.Context) map[string]string {
	out := b.home.Versions(ctx, "haproxy", "vllm-router", "smg")
	out["vllm"] = b.install.Version
	if text, err := exec.CommandContext(ctx, b.Warden, "version").Output(); err == nil {
		out["warden"], _, _ = strings.Cut(strings.TrimSpace(string(text)), "\n")
	}
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
