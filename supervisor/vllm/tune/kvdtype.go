package tune

import (
	"fmt"
	"strings"
)

// FP8 says whether a KV cache of 8 bits suits a GPU: it doubles the KV tokens
// and costs some precision, so that it is the user's to decide.
type FP8 string

// FlashAttention reads fp8 KV on compute capability 9.0 and 10.x only; Ada and
// the consumer Blackwells (8.9, 12.x) compute fp8 but fall back to FlashInfer or
// Triton, older ones have no fp8 at all (vLLM 0.32.0, v1/attention/backends).
const (
	FP8Good    FP8 = "good"
	FP8Measure FP8 = "measure" // another attention backend takes over: faster or slower, nobody knows before
	FP8No      FP8 = "no"
	FP8Unknown FP8 = "unknown"
)

// FP8On judges a GPU by its compute capability; 0, 0 is unknown.
func FP8On(major, minor int) FP8 {
	switch {
	case major == 0:
		return FP8Unknown
	case major == 9 && minor == 0, major == 10:
		return FP8Good
	case major > 8 || major == 8 && minor >= 9:
		return FP8Measure
	}
	return FP8No
}

// kvScale is the size of a number of that --kv-cache-dtype against the two bytes
// of auto. ok is false for types that are not known here.
func kvScale(dtype string) (scale float64, ok bool) {
	switch {
	case dtype == "" || dtype == "auto" || dtype == "bfloat16" || dtype == "float16" || dtype == "half":
		return 1, true
	case strings.HasPrefix(dtype, "fp8") || strings.HasPrefix(dtype, "int8"):
		return 0.5, true
	case dtype == "float32" || dtype == "float":
		return 2, true
	}
	return 0, false
}

// kvDType reports what the KV type is and why warden leaves it alone.
func kvDType(f Facts) Setting {
	s := Setting{Flag: "--kv-cache-dtype", Value: "auto", By: ByVLLM}
	gpu := fmt.Sprintf("compute capability %d.%d", f.ComputeCap[0], f.ComputeCap[1])
	switch FP8On(f.ComputeCap[0], f.ComputeCap[1]) {
	case FP8Good:
		s.Reason = "fp8 would double the KV tokens and this GPU (" + gpu + ") reads it well; it costs precision, so it is yours to choose"
	case FP8Measure:
		s.Reason = "fp8 would double the KV tokens, with another attention backend on this GPU (" + gpu + "): measure before you choose it"
	case FP8No:
		s.Reason = "this GPU (" + gpu + ") has no fp8"
	default:
		s.Reason = "as the model's weights"
	}
	return s
}
