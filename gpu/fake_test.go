package gpu

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestFake(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	f := NewFake(4)
	f.Now = func() time.Time { return now }
	inv, err := f.Detect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, d := range inv.Devices {
		if d.Index != i || !strings.Contains(d.Name, "SIMULATED") {
			t.Errorf("device %d: %+v", i, d)
		}
	}
	idle, err := f.Sample(t.Context())
	if err != nil || len(idle) != 4 {
		t.Fatal(idle, err)
	}
	f.Load = func(index int, at time.Time) Load {
		if !at.Equal(now) {
			t.Errorf("load asked for %v", at)
		}
		return Load{MemoryUsed: uint64(index) << 40, Utilization: float64(index)} // above what a card has
	}
	loaded, err := f.Sample(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range loaded {
		if s.UUID != inv.Devices[i].UUID || !s.At.Equal(now) || s.MemoryUsed+s.MemoryFree != s.MemoryTotal || s.MemoryTotal != inv.Devices[i].Memory {
			t.Errorf("sample %d: %+v", i, s)
		}
	}
	if s := loaded[0]; *s.Utilization != 0 || s.MemoryUsed != 0 {
		t.Errorf("no load: %+v", s)
	}
	if s := loaded[3]; *s.Utilization != 1 || s.MemoryFree != 0 || *s.PowerWatts <= *idle[3].PowerWatts || *s.TemperatureC <= *idle[3].TemperatureC {
		t.Errorf("full load: %+v", s)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

func TestFakeSizes(t *testing.T) {
	for n, want := range map[int]int{-1: 0, 0: 0, 1: 1, 1000: 256} {
		inv, err := NewFake(n).Detect(t.Context())
		if err != nil || len(inv.Devices) != want {
			t.Errorf("NewFake(%d): %d devices, %v", n, len(inv.Devices), err)
		}
	}
}

func TestFakeHeedsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err1 := NewFake(1).Detect(ctx)
	_, err2 := NewFake(1).Sample(ctx)
	if !errors.Is(err1, context.Canceled) || !errors.Is(err2, context.Canceled) {
		t.Errorf("got %v, %v", err1, err2)
	}
}
