package keep

import "testing"

func TestMemoryGate(t *testing.T) {
	const mb = 1 << 20
	tests := []struct {
		name     string
		baseline uint64
		reads    []uint64
		want     bool
	}{
		{"two reads", 0, []uint64{100 * mb, 100 * mb}, false},
		{"three equal", 0, []uint64{100 * mb, 100 * mb, 100 * mb}, true},
		{"a desktop's noise", 0, []uint64{9000 * mb, 9030 * mb, 9000 * mb}, true},
		{"still draining", 0, []uint64{100 * mb, 200 * mb, 300 * mb}, false},
		{"drained", 0, []uint64{100 * mb, 900 * mb, 900 * mb, 900 * mb}, true},
		{"stable but not back", 15000 * mb, []uint64{100 * mb, 100 * mb, 100 * mb, 100 * mb}, false},
		{"nearly back", 15000 * mb, []uint64{14600 * mb, 14600 * mb, 14600 * mb}, true},
	}
	for _, tt := range tests {
		g := memoryGate{baseline: tt.baseline}
		open := false
		for _, free := range tt.reads {
			open = g.observe(free)
		}
		if open != tt.want {
			t.Errorf("%s: open %v", tt.name, open)
		}
	}
}
