package tune

import (
	"fmt"
	"math"
	"strconv"
)

// Offloading is what the configuration asks of the host-memory tier.
type Offloading struct {
	Off bool
	GiB float64 // per replica; 0 = auto
}

// Tier is what becomes of it.
type Tier struct {
	GiB    float64 // of one replica, over all its GPUs; 0 = off
	Tokens int     // that it holds; 0 = off, or not known
	Reason string
	// Warning is what speaks against a tier that was asked for, or against the one
	// that is switched off.
	Warning string
	// ConfiguredOff says that nothing but the configuration decided.
	ConfiguredOff bool
	// Possible is what this machine's memory would allow, also where the tier is
	// off; 0 = nothing, or not known.
	Possible float64
}

const (
	gib = 1 << 30

	// A quarter of the free memory, shared by all replicas: the page cache of the
	// weights, the engines' own processes and the user's tools (agents compile
	// and test on the same machine) need the rest.
	shareOfFree = 0.25
	// A tier has to be a multiple of the KV cache: below it holds copies of what
	// the GPU still has, and loads that come too late. SIMULATED, four replicas of
	// 40,000 KV tokens (5.5 GiB), turns/min with tiers of 0, 4, 6, 8 and 16 GiB
	// (none, 0.7, 1.1, 1.5 and 2.9 times the cache):
	//
	//	24 sessions, affinity    54.2  54.0  61.0  91.0  95.0
	//	24 sessions, admission   93.3  78.0  83.8  90.0  94.5
	//	32 sessions, affinity    53.5  53.5  53.5  58.2  93.8
	//	32 sessions, admission   91.8  76.5  77.2  80.3  92.7
	//
	// Between 8 and 16 GiB the sign changes for admission, hence twice; three
	// times the cache is the most that was tried.
	leastOfKV, mostOfKV = 2, 3
	// smallestLimit is allowed to every model, so that one with a small cache has
	// room for many conversations.
	smallestLimit = 16
	// shareOfShm leaves the engines' own queues their part of /dev/shm.
	shareOfShm = 0.9

	// The native tier's repairs came with 0.30: before it hybrid models killed the
	// engine (vllm-project/vllm#53505), and loads could bring wrong blocks
	// (#45704).
	offloadSince = 30
)

// NoTierError is a size that was asked for and cannot be.
type NoTierError struct{ What, Fix string }

func (e *NoTierError) Error() string { return e.What }

// Hint is the way out.
func (e *NoTierError) Hint() string { return e.Fix }

const autoFix = "`kv_offload: auto` (or leave it out)"

// DecideTier decides on the host-memory tier. It returns *NoTierError only for a
// size that was asked for.
func DecideTier(f Facts) (Tier, error) {
	t := Tier{Possible: possible(f)}
	if own, ok := f.ownTier(); ok {
		own.Possible = t.Possible
		return own, nil
	}
	switch {
	case f.Offload.Off:
		t.Reason, t.Warning, t.ConfiguredOff = "off as configured", hinders(f), true
		return t, nil
	case f.Offload.GiB > 0:
		return askedTier(f, t)
	}
	if t.Reason = hinders(f); t.Reason != "" {
		return t, nil
	}
	kv := kvGiB(f)
	room := fmt.Sprintf("a quarter of the %s free memory, for %d replicas", inGiB(f.Host.Free), max(f.Replicas, 1))
	switch {
	case f.Host.Free == 0:
		t.Reason = "off: the free memory of this machine cannot be read"
	case kv == 0:
		t.Reason = "off: how large the KV cache will be is not known; name a size to use it"
	case t.Possible < leastOfKV*kv:
		t.Reason = fmt.Sprintf("off: %s, is %s each, and less than twice the KV cache (about %.1f GiB) gains nothing", room, number(t.Possible)+" GiB", kv)
	default:
		t.GiB = t.Possible
		t.Tokens = tierTokens(f, t.GiB)
		t.Reason = fmt.Sprintf("%s, at most three times the KV cache (about %.1f GiB)", room, kv)
	}
	return t, nil
}

// ownTier is one that the user's own engine arguments make.
func (f Facts) ownTier() (Tier, bool) {
	size, given := f.arg("--kv-offloading-size")
	if !given {
		if _, given = f.arg("--kv-transfer-config"); given {
			return Tier{Reason: "left to your own --kv-transfer-config"}, true
		}
		return Tier{}, false
	}
	t := Tier{Reason: "your own --kv-offloading-size"}
	if n, err := strconv.ParseFloat(size, 64); err == nil && n > 0 && !math.IsInf(n, 1) {
		t.GiB, t.Tokens = n, tierTokens(f, n)
	}
	return t, true
}

// hinders says why there can be or should be no tier, whatever its size; "" =
// nothing stands in the way.
func hinders(f Facts) string {
	switch f.Platform {
	case CPU:
		return "off: vLLM's CPU build has none (\"CPU Offloading is currently only supported on CUDA-alike and XPU GPUs\")"
	case Simulated:
		return "off: SIMULATED engines use no memory that could be measured; name a size to try it"
	}
	if why := versionHinders(f.Version); why != "" {
		return why
	}
	layers, known := f.hybrid()
	switch {
	case !known:
		return "off: the model's config.json is not on this disk yet, so its kind of layers is not known; the next `warden up` knows more"
	case layers != "":
		return "off: the model has " + layers + ", whose state vLLM's tier restores only in part"
	}
	return ""
}

func versionHinders(version string) string {
	n, ok := minor(version)
	switch {
	case !ok:
		return "off: the version of this vLLM is not known, and before 0.30 its tier could kill the engine"
	case n < offloadSince:
		return "off: the tier of vLLM " + version + " could kill the engine or bring wrong blocks; 0.30 repaired it"
	}
	return ""
}

// askedTier checks a size that was asked for: what speaks against it is said,
// what makes it impossible is refused.
func askedTier(f Facts, t Tier) (Tier, error) {
	if f.Platform == CPU {
		return t, &NoTierError{
			What: fmt.Sprintf("kv_offload %s: vLLM's CPU build has no host-memory tier (it ends with \"CPU Offloading is currently only supported on CUDA-alike and XPU GPUs\")", number(f.Offload.GiB)),
			Fix:  autoFix,
		}
	}
	all := f.Offload.GiB * float64(max(f.Replicas, 1)) * gib
	if f.Platform == CUDA {
		for _, limit := range []struct {
			bytes uint64
			what  string
		}{{f.Host.Free, "of memory are free"}, {f.Host.Shm, "are free in /dev/shm, where vLLM keeps it"}} {
			if limit.bytes > 0 && all > float64(limit.bytes) {
				return t, &NoTierError{
					What: fmt.Sprintf("kv_offload %s: %d replicas need %s, and %s %s", number(f.Offload.GiB), max(f.Replicas, 1), inGiB(uint64(all)), inGiB(limit.bytes), limit.what),
					Fix:  smallerFix(float64(limit.bytes) * shareOfShm / gib / float64(max(f.Replicas, 1))),
				}
			}
		}
		t.Warning = hinders(f)
	}
	t.GiB, t.Tokens, t.Reason = f.Offload.GiB, tierTokens(f, f.Offload.GiB), "as configured"
	return t, nil
}

// smallerFix names the whole GiB that fit; less than one is no tier.
func smallerFix(fits float64) string {
	if fits < 1 {
		return autoFix
	}
	return fmt.Sprintf("`kv_offload: %.0f` or less, or auto", math.Floor(fits))
}

// possible is the size in whole GiB that the memory allows each replica.
func possible(f Facts) float64 {
	replicas := float64(max(f.Replicas, 1))
	size := min(shareOfFree*float64(f.Host.Free)/replicas/gib, max(smallestLimit, mostOfKV*kvGiB(f)))
	if f.Host.Shm > 0 {
		size = min(size, shareOfShm*float64(f.Host.Shm)/replicas/gib)
	}
	return math.Floor(size)
}

// kvGiB is the estimated size of a replica's KV cache.
func kvGiB(f Facts) float64 { return float64(EstimateKVTokens(f)) * float64(f.KVBytes()) / gib }

func tierTokens(f Facts, size float64) int {
	perToken := f.KVBytes()
	if perToken == 0 {
		return 0
	}
	return int(size * gib / float64(perToken))
}

func inGiB(bytes uint64) string { return fmt.Sprintf("%.1f GiB", float64(bytes)/gib) }

func number(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
