package xid

import (
	"strings"
	"testing"
	"time"
)

// The lists of NVIDIA's own device plugin (faults of programs) and of its
// catalogue (resets, lost GPUs) must not be mixed up by an edit of the table.
func TestActions(t *testing.T) {
	for action, codes := range map[Action][]int{
		Ignore: {13, 31, 43, 45, 68, 109},
		Watch:  {63, 92, 94, 500},
		Drain:  {46, 62, 64, 74, 119, 120},
		Stop:   {48, 79, 95},
	} {
		for _, code := range codes {
			if got := Lookup(code).Action; got != action {
				t.Errorf("XID %d: %s, want %s", code, got, action)
			}
		}
	}
}

func TestEveryRowIsWhole(t *testing.T) {
	for code := range table {
		i := Lookup(code)
		if i.Name == "" || i.Action == "" || i.Code != code {
			t.Errorf("XID %d: %+v", code, i)
		}
		if i.Fix == "" && i.Action != Ignore {
			t.Errorf("XID %d has no fix", code)
		}
		if i.Action == Drain && strings.Contains(i.Fix, "the engine's log") {
			t.Errorf("XID %d is the GPU's fault, its fix looks for the program's", code)
		}
	}
}

func TestString(t *testing.T) {
	for code, want := range map[int]string{79: "XID 79 (GPU fell off the bus)", 500: "XID 500"} {
		if got := Lookup(code).String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestParseRecord(t *testing.T) {
	at := 5_123_456 * time.Microsecond
	for record, want := range map[string]Logged{
		"3,1207,5123456,-;NVRM: Xid (PCI:0000:3B:00): 79, pid=1234, name=python, GPU has fallen off the bus.": {"0000:3b:00.0", 79, at, 1234},
		"3,1207,5123456,-;NVRM: Xid (0000:03:00): 31, Ch 00000010, intr 10000000. MMU Fault":                  {"0000:03:00.0", 31, at, 0},
		"4,1,5123456,c;NVRM: Xid (PCI:0000:01:00): 13, pid='<unknown>', name=<unknown>, Graphics Exception":   {"0000:01:00.0", 13, at, 0},
		"4,1,5123456,-,caller=T7;NVRM: Xid (PCI:0001:01:00): 154, GPU recovery action changed":                {"0001:01:00.0", 154, at, 0},
		"4,1,5123456,-;NVRM: Xid (PCI:0000:01:00): 43, pid='88', name=x":                                      {"0000:01:00.0", 43, at, 88},
	} {
		if got, ok := ParseRecord(record); !ok || got != want {
			t.Errorf("%q: got %+v %t", record, got, ok)
		}
	}
	for _, record := range []string{
		"", ";", "3,1,5;NVRM: Xid", "3,1;NVRM: Xid (PCI:0000:3b:00): 79,", "3,1,x,-;NVRM: Xid (PCI:0000:3b:00): 79,",
		"3,1,5,-;NVRM: loading NVIDIA UNIX x86_64 Kernel Module", "3,1,5,-;NVRM: Xid (PCI:0000:3b:00): none",
		"3,1,5,-;NVRM: Xid (elsewhere): 79", "3,1,-5,-;NVRM: Xid (PCI:0000:3b:00): 79",
		"3,1,5,-;somebody wrote: NVRM: Xid (PCI:0000:3b:00): 79", "3,1,5,-;NVRM: Xid (PCI:0000:3b:00): 99999999999999999999",
	} {
		if got, ok := ParseRecord(record); ok {
			t.Errorf("%q is no XID, read as %+v", record, got)
		}
	}
}

func FuzzParseRecord(f *testing.F) {
	f.Add("3,1207,5123456,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python, GPU has fallen off the bus.")
	f.Fuzz(func(t *testing.T, record string) {
		l, ok := ParseRecord(record)
		if !ok {
			return
		}
		if l.Code < 0 || l.PID < 0 || l.SinceBoot < 0 || strings.Count(l.PCIBusID, ":") != 2 {
			t.Errorf("%q: %+v", record, l)
		}
		if again, ok := ParseRecord(record); !ok || again != l {
			t.Errorf("%q: read twice, %+v and %+v", record, l, again)
		}
	})
}
