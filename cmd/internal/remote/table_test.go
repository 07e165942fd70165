package remote

import (
	"strings"
	"testing"
	"time"

	"github.com/lm-warden/warden/supervisor/control"
)

// What keeps replicas down is said above the table, with its fix; a healthy
// machine says nothing there.
func TestStatusSaysWhatKeepsReplicasDown(t *testing.T) {
	s := control.Status{Now: time.Unix(100, 0), Replicas: []control.Replica{{ID: "r0", State: control.StateReady, GPUs: []int{0}}},
		GPUs: []control.GPU{{Index: 0, Replica: "r0"}, {Index: 1}, {Index: 2}}}
	var healthy strings.Builder
	if err := WriteStatus(&healthy, s, false); err != nil || !strings.HasPrefix(healthy.String(), "REPLICA") {
		t.Errorf("%v %s", err, healthy.String())
	}
	s.Hold = &control.Hold{Cause: "library and module differ", Fix: "reboot", Since: time.Unix(50, 0)}
	s.GPUs[0].Aside = &control.Aside{Cause: "XID 119", Fix: "reset it"}
	s.GPUs[1].Aside = &control.Aside{Cause: "XID 79", Fix: "reboot"}
	s.Access = &control.Access{Problem: "keys: line 2: scope \"x\""}
	s.GPUs[2].UnavailableReason, s.GPUs[2].UnavailableFix = "no permission", "join the group"
	var b strings.Builder
	if err := WriteStatus(&b, s, false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"no engine can start: library and module differ\n  fix: reboot\n", "nothing is restarted since ",
		"GPU 0 is set aside: XID 119\n  fix: reset it; then `warden retry r0`\n", "GPU 1 is set aside: XID 79\n  fix: reboot\n",
		"keys: line 2: scope \"x\"\n", "GPU 2 cannot be read: no permission\n  fix: join the group\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing in\n%s", want, b.String())
		}
	}
}
