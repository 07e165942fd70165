package hostmem

import (
	"os"
	"path/filepath"
	"testing"
)

func TestLook(t *testing.T) {
	const meminfo = "MemTotal:       65536 kB\nMemFree:        1024 kB\nMemAvailable:   32768 kB\n"
	const mib = 1 << 20
	tests := []struct {
		name    string
		files   map[string]string
		free    uint64
		limited bool
	}{
		{"no control group", map[string]string{"proc/meminfo": meminfo}, 32 * mib, false},
		{"one without limit", map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "max\n"}, 32 * mib, false},
		{"a limit above what is free", map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "67108864\n"}, 32 * mib, false},
		{"a limit, some used", map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a\n",
			"sys/fs/cgroup/a/memory.max": "16777216\n", "sys/fs/cgroup/a/memory.current": "12582912\n",
		}, 4 * mib, true},
		{"page cache counts as free", map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a\n",
			"sys/fs/cgroup/a/memory.max": "16777216\n", "sys/fs/cgroup/a/memory.current": "12582912\n",
			"sys/fs/cgroup/a/memory.stat": "anon 4194304\nfile 8388608\ninactive_file 4194304\n",
		}, 8 * mib, true},
		{"the group above is tighter", map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/system.slice/warden.service\n",
			"sys/fs/cgroup/system.slice/memory.max": "8388608\n", "sys/fs/cgroup/system.slice/warden.service/memory.max": "16777216\n",
		}, 8 * mib, true},
		{"a container sees its own group as the root", map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/../../outside\n", "sys/fs/cgroup/memory.max": "8388608\n",
		}, 8 * mib, true},
		{"version 1", map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "7:cpu,memory:/b\n1:name=systemd:/b\n",
			"sys/fs/cgroup/memory/b/memory.limit_in_bytes": "16777216\n", "sys/fs/cgroup/memory/b/memory.usage_in_bytes": "20971520\n",
			"sys/fs/cgroup/memory/b/memory.stat": "total_inactive_file 12582912\n",
		}, 8 * mib, true},
		{"version 1 without limit", map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "7:memory:/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
		}, 32 * mib, false},
		{"more used than allowed", map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "1048576\n", "sys/fs/cgroup/memory.current": "2097152\n",
		}, 0, true},
		{"nothing to read", nil, 0, false},
	}
	for _, tt := range tests {
		root := t.TempDir()
		for name, text := range tt.files {
			path := filepath.Join(root, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if m := Look(root); m.Free != tt.free || m.Limited != tt.limited {
			t.Errorf("%s: %+v, want %d bytes free, limited %t", tt.name, m, tt.free, tt.limited)
		}
	}
	if m := Look("/"); m.Free == 0 {
		t.Errorf("of this machine: %+v", m)
	}
}
