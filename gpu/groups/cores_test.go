package groups

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPlanCores(t *testing.T) {
	tests := map[string]struct {
		dp    int
		cores []int
		want  [][]int
		err   string
	}{
		"default":   {0, []int{2, 3}, [][]int{{2, 3}}, ""},
		"even":      {2, []int{0, 1, 4, 5}, [][]int{{0, 1}, {4, 5}}, ""},
		"left over": {2, []int{0, 1, 2, 3, 4}, [][]int{{0, 1}, {2, 3}}, ""},
		"one each":  {2, []int{0, 1}, [][]int{{0}, {1}}, ""},
		"too many":  {4, []int{0, 1}, nil, "`--dp 4` on CPU needs a core for each replica, this process may use 2; fix: `--dp 2`"},
		"negative":  {-1, []int{0}, nil, "`--dp -1` makes no sense; fix: `--dp` with a number of 1 or more"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := PlanCores(test.dp, test.cores)
			text := ""
			if err != nil {
				text = err.Error()
			}
			if text != test.err {
				t.Errorf("error %q, want %q", text, test.err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPlanCoresDoesNotShareMemory(t *testing.T) {
	cores := []int{0, 1, 2, 3}
	plan, err := PlanCores(2, cores)
	if err != nil {
		t.Fatal(err)
	}
	plan[0] = append(plan[0], 99)
	if cores[2] != 2 || plan[1][0] != 2 {
		t.Errorf("growing one share changed another: %v, %v", cores, plan)
	}
}
