//go:build !cgo

package gpu

import (
	"strings"
	"testing"
)

func misbehave(string) {}

func TestWithoutCGO(t *testing.T) {
	_, err := newDriver("").detect()
	if what, fix := Describe(err); !strings.Contains(what, "CGO_ENABLED=0") || fix == "" {
		t.Errorf("got %q, %q", what, fix)
	}
}
