package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lm-warden/warden/cmd/internal/exit"
	"github.com/lm-warden/warden/cmd/internal/words"
	"github.com/lm-warden/warden/configs"
	"github.com/lm-warden/warden/gpu"
)

// engineShare is vLLM's default --gpu-memory-utilization: the part of a GPU's
// memory that it takes.
const engineShare = 0.92

// usableShare leaves a tenth of that to activations and a KV cache worth having.
const usableShare = engineShare * 0.9

// shrinkers are vLLM arguments after which weights need less GPU memory than
// the catalogue says.
var shrinkers = []string{"--quantization", "-q", "--cpu-offload-gb", "--model-impl", "--hf-overrides", "--pipeline-parallel-size"}

// checkFits refuses a model whose weights alone cannot fit: vLLM would find out
// after a download and a minute of loading.
func checkFits(m configs.Model, catalogue []configs.Entry, inv gpu.Inventory) error {
	entry, err := configs.Lookup(catalogue, m.Alias)
	if err != nil || entry.Repo != m.Repo || entry.WeightsGB == 0 || slices.ContainsFunc(m.Args, shrinks) {
		return nil
	}
	largest, count := largestMemory(inv, m.GPUs)
	if largest == 0 {
		return nil // the driver does not say: vLLM will
	}
	need, have := entry.WeightsGB*1e9, engineShare*float64(largest)
	if need <= have*float64(m.TP) {
		return nil
	}
	has := fmt.Sprintf("one GPU has %s", words.Gigabytes(float64(largest)/1e9))
	if m.TP > 1 {
		has = fmt.Sprintf("%d GPUs have %s", m.TP, words.Gigabytes(float64(largest)*float64(m.TP)/1e9))
	}
	what := fmt.Errorf("%s needs about %s for its weights, %s", m.Repo, words.Gigabytes(entry.WeightsGB), has)
	for _, share := range []float64{usableShare, engineShare} {
		if tp := fittingTP(entry.WeightsGB, largest, count, share); tp > 0 {
			return exit.Fail(exit.Preflight, what, fmt.Sprintf("`--tp %d`; `warden models --fit` lists what fits", tp))
		}
	}
	lack := words.Gigabytes((need - have*float64(count)) / 1e9)
	return exit.Fail(exit.Preflight, what, fmt.Sprintf("even `--tp %d` lacks %s before any KV cache; `warden models --fit` lists what fits", count, lack))
}

func shrinks(arg string) bool {
	name, _, _ := strings.Cut(arg, "=")
	return slices.Contains(shrinkers, name)
}

// largestMemory is the memory of the largest GPU in bytes and how many GPUs
// there are, of those the user named.
func largestMemory(inv gpu.Inventory, named []int) (largest uint64, count int) {
	for _, d := range inv.Devices {
		if len(named) > 0 && !slices.Contains(named, d.Index) {
			continue
		}
		largest = max(largest, d.Memory)
		count++
	}
	return largest, count
}

// fittingTP is the smallest power of two of GPUs whose shares hold the weights,
// 0 when count GPUs do not.
func fittingTP(weightsGB float64, memory uint64, count int, share float64) int {
	for tp := 1; tp <= count; tp *= 2 {
		if weightsGB*1e9 <= share*float64(memory)*float64(tp) {
			return tp
		}
	}
	return 0
}
