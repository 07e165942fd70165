package groups

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lm-warden/warden/gpu"
)

// box makes n idle GPUs of one name and size, every pair at level.
func box(n int, name string, memory uint64, level gpu.Level) gpu.Inventory {
	inv := gpu.Inventory{}
	for i := range n {
		inv.Devices = append(inv.Devices, gpu.Device{Index: i, UUID: fmt.Sprintf("GPU-%d", i), Name: name, Memory: memory,
			MemoryUsed: 300 << 20, MemoryFree: memory - 300<<20, ComputeCap: [2]int{8, 6}, NUMANode: -1, ComputeMode: gpu.ComputeModeDefault})
		for b := range i {
			inv.Links = append(inv.Links, gpu.Link{A: b, B: i, Level: level})
		}
	}
	return inv
}

func a4000s(n int) gpu.Inventory { return box(n, "NVIDIA RTX A4000", 16<<30, gpu.LevelHostBridge) }

// with changes one device of an inventory.
func with(inv gpu.Inventory, index int, change func(*gpu.Device)) gpu.Inventory {
	inv.Devices = slices.Clone(inv.Devices)
	change(&inv.Devices[index])
	return inv
}

func busy(d *gpu.Device) {
	d.MemoryUsed, d.MemoryFree = 12026<<20, d.Memory-12026<<20 // 11.7 GiB
	d.Processes = []gpu.Process{{PID: 998, Name: "python", User: "ana", Memory: 11 << 30}}
}

// link sets one pair.
func link(inv gpu.Inventory, a, b int, level gpu.Level, nvlinks int) gpu.Inventory {
	inv.Links = slices.DeleteFunc(slices.Clone(inv.Links), func(l gpu.Link) bool { return l.A == a && l.B == b })
	inv.Links = append(inv.Links, gpu.Link{A: a, B: b, Level: level, NVLinks: nvlinks})
	return inv
}

func indices(groups []gpu.Group) [][]int {
	var all [][]int
	for _, g := range groups {
		all = append(all, g.Indices())
	}
	return all
}

func TestPlan(t *testing.T) {
	// 8 GPUs in which 0-3, 1-2, 4-7, 5-6 are bridged, the rest far apart.
	bridged := box(8, "NVIDIA A100 80GB PCIe", 80<<30, gpu.LevelSystem)
	for _, pair := range [][2]int{{0, 3}, {1, 2}, {4, 7}, {5, 6}} {
		bridged = link(bridged, pair[0], pair[1], gpu.LevelNode, 12)
	}
	// The best pair 1-2 leaves 0 and 3 the worst connection; any other split has none.
	trap := box(4, "NVIDIA L40S", 48<<30, gpu.LevelHostBridge)
	trap = link(link(trap, 1, 2, gpu.LevelSingle, 0), 0, 3, gpu.LevelSystem, 0)
	// Two sockets with four GPUs each, levels unknown.
	sockets := box(8, "NVIDIA L40S", 48<<30, gpu.LevelUnknown)
	for i := range sockets.Devices {
		sockets.Devices[i].NUMANode = i % 2
	}
	mixed := a4000s(4)
	for _, i := range []int{1, 3} {
		mixed = with(mixed, i, func(d *gpu.Device) { d.Name, d.Memory = "NVIDIA GeForce RTX 3090", 24<<30 })
	}
	ecc := with(a4000s(2), 1, func(d *gpu.Device) { d.Memory -= d.Memory / 16 })
	display := with(a4000s(3), 0, func(d *gpu.Device) { d.Name, d.Memory, d.ComputeCap = "Quadro K620", 2<<30, [2]int{5, 0} })
	silent := with(a4000s(1), 0, func(d *gpu.Device) { d.Memory, d.MemoryUsed, d.MemoryFree = 0, 0, 0 })
	tests := map[string]struct {
		inv  gpu.Inventory
		req  Request
		want [][]int
	}{
		"zero request":                  {a4000s(3), Request{}, [][]int{{0}, {1}, {2}}},
		"dp":                            {a4000s(4), Request{DP: 2}, [][]int{{0}, {1}}},
		"named":                         {a4000s(4), Request{GPUs: []int{3, 1}}, [][]int{{1}, {3}}},
		"named, fewer replicas":         {a4000s(4), Request{GPUs: []int{3, 1}, DP: 1}, [][]int{{1}}},
		"busy is left out":              {with(a4000s(4), 2, busy), Request{}, [][]int{{0}, {1}, {3}}},
		"busy is replaced":              {with(a4000s(4), 0, busy), Request{DP: 2}, [][]int{{1}, {2}}},
		"busy does not matter":          {with(a4000s(2), 0, busy), Request{MinFree: -1}, [][]int{{0}, {1}}},
		"less memory asked":             {with(a4000s(2), 0, busy), Request{MinFree: 0.2}, [][]int{{0}, {1}}},
		"memory not reported":           {silent, Request{}, [][]int{{0}}},
		"too small for the model":       {display, Request{MinMemory: 10 << 30}, [][]int{{1}, {2}}},
		"too old for the engine":        {display, Request{MinCompute: [2]int{7, 5}}, [][]int{{1}, {2}}},
		"exclusive and free":            {with(a4000s(1), 0, func(d *gpu.Device) { d.ComputeMode = gpu.ComputeModeExclusiveProcess }), Request{}, [][]int{{0}}},
		"tp, uniform":                   {a4000s(4), Request{TP: 2}, [][]int{{0, 1}, {2, 3}}},
		"tp, one left over":             {a4000s(5), Request{TP: 2}, [][]int{{0, 1}, {2, 3}}},
		"tp, all":                       {a4000s(4), Request{TP: 4}, [][]int{{0, 1, 2, 3}}},
		"tp, nvlink":                    {bridged, Request{TP: 2}, [][]int{{0, 3}, {1, 2}, {4, 7}, {5, 6}}},
		"tp, nvlink, two replicas":      {bridged, Request{TP: 2, DP: 2}, [][]int{{0, 3}, {1, 2}}},
		"tp, nvlink, one end is busy":   {with(bridged, 3, busy), Request{TP: 2}, [][]int{{1, 2}, {4, 7}, {5, 6}}},
		"tp, no greed":                  {trap, Request{TP: 2}, [][]int{{0, 1}, {2, 3}}},
		"tp, the best pair when alone":  {trap, Request{TP: 2, DP: 1}, [][]int{{1, 2}}},
		"tp, one node each":             {sockets, Request{TP: 4}, [][]int{{0, 2, 4, 6}, {1, 3, 5, 7}}},
		"tp, like with like":            {mixed, Request{TP: 2}, [][]int{{0, 2}, {1, 3}}},
		"tp, mixed when named":          {mixed, Request{TP: 2, GPUs: []int{0, 1}}, [][]int{{0, 1}}},
		"tp, named, still like first":   {mixed, Request{TP: 2, GPUs: []int{0, 1, 2, 3}}, [][]int{{0, 2}, {1, 3}}},
		"tp, ECC on one card":           {ecc, Request{TP: 2}, [][]int{{0, 1}}},
		"tp, fewer groups than numbers": {with(a4000s(4), 0, func(d *gpu.Device) { d.Name = "NVIDIA T4" }), Request{TP: 2}, [][]int{{1, 2}}},
		"a box beyond the exact search": {box(20, "NVIDIA H100", 80<<30, gpu.LevelSystem), Request{TP: 8},
			[][]int{{0, 1, 2, 3, 4, 5, 6, 7}, {8, 9, 10, 11, 12, 13, 14, 15}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			groups, err := Plan(test.inv, test.req)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, indices(groups)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPlanErrors(t *testing.T) {
	mig := with(a4000s(2), 1, func(d *gpu.Device) { d.MIG = true })
	prohibited := with(a4000s(1), 0, func(d *gpu.Device) { d.ComputeMode = gpu.ComputeModeProhibited })
	exclusive := with(a4000s(1), 0, func(d *gpu.Device) {
		d.ComputeMode = gpu.ComputeModeExclusiveProcess
		d.Processes = []gpu.Process{{PID: 7}}
	})
	desktop := with(a4000s(1), 0, func(d *gpu.Device) {
		d.MemoryUsed, d.MemoryFree = 3<<30, 13<<30
		d.Processes = []gpu.Process{{PID: 5, Name: "a", Memory: 1}, {PID: 6, Name: "Xorg", User: "root", Memory: 4}, {PID: 7, Name: "b", Memory: 1}, {PID: 8, Name: "c"}}
	})
	unnamed := with(a4000s(1), 0, func(d *gpu.Device) { busy(d); d.Processes = nil })
	lost := a4000s(1)
	lost.Lost = []gpu.Lost{{NVMLIndex: 1, Code: gpu.CodeGPULost, Err: "a GPU fell off the bus"}}
	unlike := with(with(a4000s(4), 0, func(d *gpu.Device) { d.Name = "NVIDIA T4" }), 3, func(d *gpu.Device) { d.Name = "NVIDIA L4" })
	twoBusy := with(with(a4000s(4), 2, busy), 0, busy)
	const holder = "GPU 2 (RTX A4000) has 11.7 of 16 GiB used by pid 998 (python, user ana)"
	tests := map[string]struct {
		inv       gpu.Inventory
		req       Request
		kind      Kind
		what, fix string
	}{
		"negative dp":  {a4000s(1), Request{DP: -1}, BadNumber, "`--dp -1` makes no sense", "`--dp` with a number of 1 or more"},
		"negative tp":  {a4000s(1), Request{TP: -2}, BadNumber, "`--tp -2` makes no sense", "`--tp` with a number of 1 or more"},
		"twice":        {a4000s(2), Request{GPUs: []int{1, 0, 1}}, BadNumber, "`--gpus 1,0,1` names a GPU twice", "`--gpus 0,1`"},
		"no such":      {a4000s(4), Request{GPUs: []int{4}}, NoSuchGPU, "there is no GPU 4, this machine has GPUs 0 to 3", "`--gpus` with indices that `warden gpus` shows"},
		"no such of 1": {a4000s(1), Request{GPUs: []int{4}}, NoSuchGPU, "there is no GPU 4, this machine has only GPU 0", "`--gpus` with indices that `warden gpus` shows"},
		"no such of 0": {gpu.Inventory{}, Request{GPUs: []int{0}}, NoSuchGPU, "there is no GPU 0, this machine has none", "`warden up --demo` or `--device cpu`"},
		"none at all":  {gpu.Inventory{}, Request{}, TooFew, "a replica needs 1 GPU, this machine has 0", "`warden up --demo` or `--device cpu`"},
		"too many": {a4000s(4), Request{DP: 4, TP: 2}, TooFew, "`--dp 4 --tp 2` needs 8 GPUs, this machine has 4",
			"`--dp 2 --tp 2` or `--dp 4`"},
		"too many replicas": {a4000s(2), Request{DP: 4}, TooFew, "`--dp 4` needs 4 GPUs, this machine has 2", "`--dp 2`"},
		"too wide":          {a4000s(6), Request{TP: 8}, TooFew, "`--tp 8` needs 8 GPUs, this machine has 6", "`--tp 4`"},
		"both too much":     {a4000s(4), Request{DP: 8, TP: 8}, TooFew, "`--dp 8 --tp 8` needs 64 GPUs, this machine has 4", "`--dp 4`"},
		"named too few": {a4000s(4), Request{DP: 3, GPUs: []int{0, 1}}, TooFew, "`--dp 3` needs 3 GPUs, `--gpus 0,1` names 2",
			"`--dp 2`"},
		"one lost": {lost, Request{DP: 2}, TooFew, "`--dp 2` needs 2 GPUs, this machine has 1 and 1 that does not answer (a GPU fell off the bus)",
			"`--dp 1`"},
		"busy": {with(a4000s(4), 2, busy), Request{DP: 4}, NotUsable, holder,
			"`--gpus 0,1,3 --dp 3`, or stop it: `kill 998`"},
		"busy and named": {with(a4000s(4), 2, busy), Request{DP: 1, GPUs: []int{2}}, NotUsable, holder,
			"`--gpus 0 --dp 1`, or stop it: `kill 998`"},
		"busy, tp": {with(a4000s(4), 2, busy), Request{DP: 2, TP: 2}, NotUsable, holder,
			"`--gpus 0,1 --dp 1 --tp 2`, or stop it: `kill 998`"},
		"two busy": {twoBusy, Request{DP: 3}, NotUsable,
			"GPU 0 (RTX A4000) has 11.7 of 16 GiB used by pid 998 (python, user ana) (GPU 2 cannot be used either)",
			"`--gpus 1,3 --dp 2`, or stop it: `kill 998`"},
		"busy by nobody": {unnamed, Request{}, NotUsable,
			"GPU 0 (RTX A4000) has 11.7 of 16 GiB used by a process that the driver does not name (another container?)",
			"find and stop what uses it: `sudo nvidia-smi`"},
		"a desktop": {desktop, Request{}, NotUsable,
			"GPU 0 (RTX A4000) has 3 of 16 GiB used by pid 6 (Xorg, user root), pid 5 (a), pid 7 (b) and 1 more",
			"stop them, or `--gpu-memory-utilization 0.80`"},
		"mig": {mig, Request{DP: 2}, NotUsable,
			"GPU 1 (RTX A4000) is partitioned (MIG): its slices can only be named by UUID, which vLLM does not take",
			"`--gpus 0 --dp 1`, or `sudo nvidia-smi -i 1 -mig 0`"},
		"prohibited": {prohibited, Request{}, NotUsable, "GPU 0 (RTX A4000) forbids programs (compute mode PROHIBITED)",
			"`sudo nvidia-smi -i 0 -c DEFAULT`"},
		"exclusive": {exclusive, Request{}, NotUsable, "GPU 0 (RTX A4000) admits one program (compute mode EXCLUSIVE_PROCESS) and has pid 7",
			"stop it, or `sudo nvidia-smi -i 0 -c DEFAULT`"},
		"too old": {a4000s(1), Request{MinCompute: [2]int{9, 0}}, NotUsable, "GPU 0 (RTX A4000) has compute capability 8.6, the engine needs 9.0",
			"a GPU that can run it; `warden gpus` shows what is here"},
		"too small": {a4000s(1), Request{MinMemory: 66 << 30}, NotUsable, "GPU 0 (RTX A4000) has 16 GiB of memory, the model needs 66",
			"a GPU that can run it; `warden gpus` shows what is here"},
		"unlike": {unlike, Request{DP: 2, TP: 2}, Unequal, "`--dp 2 --tp 2` needs groups of 2 equal GPUs, this machine has 1 L4, 2 RTX A4000, 1 T4",
			"`--dp 1 --tp 2` or `--tp 1`, or name the GPUs with `--gpus` to mix them"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			groups, err := Plan(test.inv, test.req)
			e, ok := errors.AsType[*Error](err)
			if !ok {
				t.Fatalf("got %v, %v", indices(groups), err)
			}
			what, fix := gpu.Describe(err)
			if e.Kind != test.kind || what != test.what || fix != test.fix {
				t.Errorf("got  %s: %s / fix: %s\nwant %s: %s / fix: %s", e.Kind, what, fix, test.kind, test.what, test.fix)
			}
		})
	}
}

// Whatever it is asked, Plan gives disjoint groups of the right size, and the
// same ones again.
func TestPlanProperties(t *testing.T) {
	for n := range 9 {
		inv := a4000s(n)
		for i := range inv.Links {
			inv.Links[i].Level = gpu.Level(10 * (i * 7 % 6))
			inv.Links[i].NVLinks = max(0, i*5%7-4)
		}
		for tp := 1; tp <= 8; tp++ {
			for dp := 0; dp <= n/tp; dp++ {
				groups, err := Plan(inv, Request{DP: dp, TP: tp})
				if n < tp {
					if err == nil {
						t.Fatalf("%d GPUs, tp %d: no error", n, tp)
					}
					continue
				}
				if err != nil {
					t.Fatalf("%d GPUs, dp %d, tp %d: %v", n, dp, tp, err)
				}
				want := dp
				if dp == 0 {
					want = n / tp
				}
				seen := map[int]bool{}
				for _, g := range groups {
					for _, i := range g.Indices() {
						seen[i] = true
					}
				}
				if len(groups) != want || len(seen) != want*tp {
					t.Errorf("%d GPUs, dp %d, tp %d: %v", n, dp, tp, indices(groups))
				}
				again, err := Plan(inv, Request{DP: dp, TP: tp})
				if err != nil || !cmp.Equal(groups, again) {
					t.Errorf("a second look differs: %v, then %v, %v", indices(groups), indices(again), err)
				}
			}
		}
	}
}

// The bounded search must agree with trying everything.
func TestGroupingIsOptimal(t *testing.T) {
	for seed := range 60 {
		inv := a4000s(6)
		for i := range inv.Links {
			inv.Links[i].Level = gpu.Level(10 * ((i*seed + i*i + seed) % 6))
		}
		groups, err := Plan(inv, Request{TP: 2})
		if err != nil {
			t.Fatal(err)
		}
		got := cost{}
		for _, g := range groups {
			c := pairCost(g[0], g[1], inv.Between(g[0].Index, g[1].Index))
			got = got.plus(cost{c, c})
		}
		if best := bruteForce(inv, inv.Devices); best.less(got) {
			t.Errorf("seed %d: plan %v costs %+v, possible is %+v", seed, indices(groups), got, best)
		}
	}
}

// bruteForce is the least cost of pairing all devices.
func bruteForce(inv gpu.Inventory, devices []gpu.Device) cost {
	if len(devices) == 0 {
		return cost{}
	}
	best := cost{worst: 1 << 30}
	for i := 1; i < len(devices); i++ {
		rest := slices.Concat(devices[1:i], devices[i+1:])
		c := pairCost(devices[0], devices[i], inv.Between(devices[0].Index, devices[i].Index))
		if total := bruteForce(inv, rest).plus(cost{c, c}); total.less(best) {
			best = total
		}
	}
	return best
}

func TestRefusals(t *testing.T) {
	inv := with(with(a4000s(4), 2, busy), 3, func(d *gpu.Device) { d.MIG = true })
	var got []Cause
	for _, r := range Refusals(inv, Request{}) {
		got = append(got, r.Cause)
	}
	if want := []Cause{CauseBusy, CauseMIG}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if r := Refusals(inv, Request{GPUs: []int{0, 3}}); len(r) != 1 || r[0].Device.Index != 3 {
		t.Errorf("of the named ones: %+v", r)
	}
	if r := Refusals(inv, Request{GPUs: []int{9}}); r != nil {
		t.Errorf("of an unknown one: %+v", r)
	}
	if r := Refusals(inv, Request{DP: -1}); r != nil {
		t.Errorf("of a bad request: %+v", r)
	}
}

func TestGroup(t *testing.T) {
	g := gpu.Group{{Index: 1, UUID: "GPU-b", CPUs: []int{4, 5, 6}}, {Index: 10, UUID: "GPU-k", CPUs: []int{0, 4}}}
	if want := []string{"CUDA_DEVICE_ORDER=PCI_BUS_ID", "CUDA_VISIBLE_DEVICES=1,10"}; !slices.Equal(g.Env(), want) {
		t.Errorf("Env: %v", g.Env())
	}
	if want := []string{"GPU-b", "GPU-k"}; !slices.Equal(g.UUIDs(), want) {
		t.Errorf("UUIDs: %v", g.UUIDs())
	}
	if want := []int{0, 4, 5, 6}; !slices.Equal(g.CPUs(), want) {
		t.Errorf("CPUs: %v", g.CPUs())
	}
	g[1].CPUs = nil
	if g.CPUs() != nil {
		t.Errorf("CPUs with one unknown: %v", g.CPUs())
	}
}

func BenchmarkPlan16GPUs(b *testing.B) {
	inv := box(16, "NVIDIA H100", 80<<30, gpu.LevelSystem)
	for i := range inv.Links {
		inv.Links[i].Level = gpu.Level(10 * (i * 7 % 6))
	}
	for _, tp := range []int{2, 4, 8} {
		b.Run(fmt.Sprint("tp", tp), func(b *testing.B) {
			for b.Loop() {
				if _, err := Plan(inv, Request{TP: tp}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestAvoidedGPUsAreTheLastChoice(t *testing.T) {
	avoid := []string{"GPU-0", "GPU-2"}
	for _, tt := range []struct {
		req  Request
		want [][]int
	}{
		{Request{}, [][]int{{1}, {3}}},
		{Request{DP: 2}, [][]int{{1}, {3}}},
		{Request{DP: 1}, [][]int{{1}}},
		{Request{DP: 3}, [][]int{{0}, {1}, {2}}}, // two are not enough: all count again
		{Request{TP: 2}, [][]int{{1, 3}}},
		{Request{DP: 2, TP: 2}, [][]int{{0, 1}, {2, 3}}},
	} {
		tt.req.Avoid = avoid
		got, err := Plan(a4000s(4), tt.req)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, indices(got)); diff != "" {
			t.Errorf("%+v: %s", tt.req, diff)
		}
	}
}

func TestSimulatedGPUsHavePlans(t *testing.T) {
	inv, err := gpu.NewFake(4).Detect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, req := range []Request{{}, {TP: 2}, {TP: 4}} {
		if _, err := Plan(inv, req); err != nil {
			t.Errorf("no plan for %+v: %v", req, err)
		}
	}
}
