package host

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func TestNormalBusID(t *testing.T) {
	for in, want := range map[string]string{
		"00000000:3B:00.0": "0000:3b:00.0",
		"0000:3B:00.0":     "0000:3b:00.0",
		"00010000:01:00.0": "10000:01:00.0",
		"0000000A:01:00.0": "000a:01:00.0",
		"":                 "",
		"nonsense":         "nonsense",
	} {
		if got := NormalBusID(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func TestBusIDOrder(t *testing.T) {
	ids := []string{"10000:01:00.0", "0000:af:00.0", "0001:01:00.0", "0000:3b:00.0", "0000:0a:00.0"}
	slices.SortFunc(ids, CompareBusID)
	want := []string{"0000:0a:00.0", "0000:3b:00.0", "0000:af:00.0", "0001:01:00.0", "10000:01:00.0"}
	if !slices.Equal(ids, want) {
		t.Errorf("got %v, want %v", ids, want)
	}
}

func FuzzNormalBusID(f *testing.F) {
	for _, seed := range []string{"00000000:3B:00.0", "0001:01:00.0", "::", ":", "0", " 0:1 "} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, id string) {
		once := NormalBusID(id)
		if twice := NormalBusID(once); twice != once {
			t.Errorf("%q became %q and then %q", id, once, twice)
		}
	})
}

func TestNUMA(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	const dir = "bus/pci/devices/0000:3b:00.0/"
	tests := map[string]struct {
		fs   fstest.MapFS
		node int
		cpus []int
	}{
		"absent":          {fstest.MapFS{}, -1, nil},
		"one node":        {fstest.MapFS{dir + "numa_node": file("-1\n"), dir + "local_cpulist": file("0-1\n")}, -1, nil},
		"two nodes":       {fstest.MapFS{dir + "numa_node": file("1\n"), dir + "local_cpulist": file("2-3,6\n")}, 1, []int{2, 3, 6}},
		"no list":         {fstest.MapFS{dir + "numa_node": file("1\n")}, 1, nil},
		"a damaged list":  {fstest.MapFS{dir + "numa_node": file("0\n"), dir + "local_cpulist": file("3-1\n")}, 0, nil},
		"a damaged node":  {fstest.MapFS{dir + "numa_node": file("left\n")}, -1, nil},
		"a node, no CPUs": {fstest.MapFS{dir + "numa_node": file("8\n"), dir + "local_cpulist": file("\n")}, 8, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			node, cpus := NUMA(test.fs, "0000:3b:00.0")
			if node != test.node || !slices.Equal(cpus, test.cpus) {
				t.Errorf("got %d, %v, want %d, %v", node, cpus, test.node, test.cpus)
			}
		})
	}
}

func TestParseCPUList(t *testing.T) {
	for in, want := range map[string][]int{
		"":            nil,
		"0":           {0},
		"0-3\n":       {0, 1, 2, 3},
		"8,0-1,10-11": {0, 1, 8, 10, 11},
		"1,1-2":       {1, 2},
	} {
		if got, err := parseCPUList(in); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: got %v, %v, want %v", in, got, err, want)
		}
	}
	for _, in := range []string{",", "a", "1-", "-1", "3-1", "0-4000000000", "8192", "1 2"} {
		if got, err := parseCPUList(in); err == nil {
			t.Errorf("%q: got %v, want an error", in, got)
		}
	}
}

func FuzzParseCPUList(f *testing.F) {
	for _, seed := range []string{"0-3,8,10-11", "", "0", "1,1", "0-4000000000", "3-1", ",,"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		cpus, err := parseCPUList(text)
		if err != nil {
			return
		}
		if !slices.IsSorted(cpus) || len(slices.Compact(slices.Clone(cpus))) != len(cpus) || len(cpus) > maxCPUs {
			t.Errorf("%q: %v", text, cpus)
		}
		if len(cpus) > 0 && (cpus[0] < 0 || cpus[len(cpus)-1] >= maxCPUs) {
			t.Errorf("%q: out of range: %v", text, cpus)
		}
	})
}

func TestIntersect(t *testing.T) {
	if got := Intersect([]int{0, 2, 4}, []int{1, 2, 3, 4}); !slices.Equal(got, []int{2, 4}) {
		t.Errorf("got %v", got)
	}
	if got := Intersect([]int{0}, []int{1}); got != nil {
		t.Errorf("nothing in common gives %v, want nil", got)
	}
}

func TestPeople(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	who := People{Root: fstest.MapFS{
		"etc/passwd":     file("root:x:0:0::/root:/bin/sh\nana:x:1000:1000::/home/ana:/bin/sh\n"),
		"proc/10/comm":   file("VLLM::EngineCor\n"),
		"proc/10/status": file("Name:\tpython\nUid:\t0\t1000\t0\t0\nGid:\t0\n"),
		"proc/11/comm":   file("Xorg\n"),
		"proc/11/status": file("Name:\tXorg\nUid:\t4242\t4242\t4242\t4242\n"),
		"proc/12/comm":   file("gone\n"),
		"proc/13/comm":   file("odd\n"),
		"proc/13/status": file("Uid:\troot\troot\n"),
	}}
	for pid, want := range map[int][2]string{
		10: {"VLLM::EngineCor", "ana"}, // the effective uid counts
		11: {"Xorg", "uid 4242"},
		12: {"gone", ""},
		13: {"odd", ""},
		14: {"", ""},
	} {
		if name, user := who.Identify(pid); name != want[0] || user != want[1] {
			t.Errorf("pid %d: got %q, %q, want %q", pid, name, user, want)
		}
	}
}

func FuzzEffectiveUID(f *testing.F) {
	for _, seed := range []string{"Uid:\t0\t1000\t0\t0\n", "Uid:", "Uid:\t1", "Name:\tx\nUid:\t1\t2\n", "Uid:\ta\tb\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, status []byte) {
		uid, ok := effectiveUID(status)
		if ok && (uid == "" || strings.Trim(uid, "0123456789") != "") {
			t.Errorf("%q gives uid %q", status, uid)
		}
	})
}
