package remote

import (
	"bytes"
	"strings"
	"testing"

	"github.com/lm-warden/warden/supervisor/control"
)

func TestStatusSaysWhatFits(t *testing.T) {
	share := 0.5
	m := control.Model{
		Alias: "m", MaxModelLen: 20_000, TypicalSessions: 3.3, KVEstimateTokens: 38_000,
		KVOffload: &control.KVOffload{GiB: 16, Tokens: 116_508, Reason: "as configured"},
		Settings: []control.Setting{
			{Flag: "--max-num-seqs", Value: "32", By: control.ByWarden, Reason: "because"},
			{Flag: "--kv-cache-dtype", Value: "fp8", By: control.ByUser, Reason: "your own"},
		},
	}
	replica := func(id string, kv int) control.Replica {
		return control.Replica{ID: id, Model: "m", State: control.StateReady,
			Engine: &control.Engine{KVCapacityTokens: kv, HostTier: &control.HostTier{HitRate60s: &share}}}
	}
	tests := []struct {
		name   string
		change func(*control.Status)
		wide   bool
		want   string
	}{
		{"ready", nil, false, "m: KV cache ~40k tokens per replica = 3.3 typical sessions of 15k = 2.0 full ones of 20k, ~90k in all\n" +
			"m: tier in host memory: 16 GiB per replica, ~117k tokens (as configured); 50% of what the GPUs had lost came from there in the last minute\n"},
		{"wide", func(s *control.Status) { s.Models[0].KVOffload = nil }, true, "full ones of 20k, ~90k in all\nm: --max-num-seqs 32: because\n"},
		{"starting", func(s *control.Status) { s.Replicas = nil }, false, "m: KV cache of about 38k tokens per replica = 3.3 typical sessions of 15k expected\n"},
		{"nothing known", func(s *control.Status) {
			s.Replicas, s.Models[0] = nil, control.Model{Alias: "m", KVOffload: &control.KVOffload{Reason: "off: too little"}}
		}, false, "NOTE\nm: no tier in host memory: too little\n"},
		{"against advice", func(s *control.Status) { s.Models[0].KVOffload.Warning = "off: 0.30 repaired it" }, false, "(as configured); against advice: 0.30 repaired it"},
	}
	for _, tt := range tests {
		copied := *m.KVOffload
		mine := m
		mine.KVOffload = &copied
		s := control.Status{Models: []control.Model{mine}, Replicas: []control.Replica{replica("r0", 50_000), replica("r1", 40_000)}}
		if tt.change != nil {
			tt.change(&s)
		}
		var b bytes.Buffer
		if err := WriteStatus(&b, s, tt.wide); err != nil || !strings.Contains(b.String(), tt.want) {
			t.Errorf("%s: %v\n%s\nwant\n%s", tt.name, err, b.String(), tt.want)
		}
	}
}
