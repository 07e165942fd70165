package vllm

import (
	"strings"
	"testing"
)

func TestAdvisories(t *testing.T) {
	for s, want := range map[string]int{"0.24.0": 5, "0.29.0+cu128": 5, "0.30.0": 2, "0.31.0": 2, "0.32.0+cpu": 0, "0.33.1": 0, "unknown": 0, "0.15.0": 3} {
		if got := Advisories(s); len(got) != want {
			t.Errorf("%s: %d advisories, want %d: %v", s, len(got), want, got)
		}
	}
	if text := advised("0.30.0+cpu"); !strings.HasPrefix(text, "vLLM 0.30.0 has known holes, all closed in 0.32.0: PYSEC-2026-4344 (") {
		t.Error(text)
	}
	if text := advised("0.32.0"); text != "" {
		t.Error(text)
	}
	for _, a := range advisories {
		since, _ := parseVersion(a.Since)
		fixed, ok := parseVersion(a.Fixed)
		oldest, _ := parseVersion(OldestVersion)
		if !ok || since.compare(fixed) >= 0 || fixed.compare(oldest) <= 0 || a.What == "" {
			t.Errorf("%+v concerns no version that warden starts", a)
		}
	}
}
