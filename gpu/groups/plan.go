package groups

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/lm-warden/warden/gpu"
)

// DefaultMinFree is vLLM's default --gpu-memory-utilization: it refuses to
// start where a smaller share of the memory is free.
const DefaultMinFree = 0.92

// Request says what the user wants. The zero value asks for one replica
// per usable GPU.
type Request struct {
	DP   int   // replicas; 0 = as many as fit
	TP   int   // GPUs per replica; 0 = 1
	GPUs []int // indices the user named; nil = all
	// MinFree is the share (0-1) of a GPU's memory that must be free; 0 =
	// DefaultMinFree, negative = do not ask. It does not apply to GPUs whose
	// memory the driver does not report.
	MinFree float64
	// MinMemory (bytes) and MinCompute (major, minor) leave out cards that
	// cannot run the model or the engine, such as a small one for the display.
	// Zero values leave out none.
	MinMemory  uint64
	MinCompute [2]int
	// Avoid are UUIDs of GPUs that would rather not be used, such as ones with a
	// fault. They are left out where enough others can be used, and only then.
	Avoid []string
}

// Kind is the sort of a Error, for callers that react to it.
type Kind string

// The kinds of Error.
const (
	TooFew    Kind = "too_few"     // not as many GPUs or cores as asked for
	NotUsable Kind = "not_usable"  // enough are there, but some cannot be used
	NoSuchGPU Kind = "no_such_gpu" // an index that does not exist
	BadNumber Kind = "bad_number"  // a value without meaning
	Unequal   Kind = "unequal"     // no tp equal GPUs
)

// Error says why there is no plan.
type Error struct {
	Kind     Kind
	What     string    // names the object and the cause
	Fix      string    // flags or a command
	Refusals []Refusal // the GPUs that cannot be used, when that is the cause
}

// Error is What and Fix in one line.
func (e *Error) Error() string { return e.What + "; fix: " + e.Fix }

// Explain is What and Fix, for gpu.Describe.
func (e *Error) Explain() (what, fix string) { return e.What, e.Fix }

func badNumber(flag string, value int) *Error {
	return &Error{Kind: BadNumber,
		What: fmt.Sprintf("`%s %d` makes no sense", flag, value),
		Fix:  "`" + flag + "` with a number of 1 or more"}
}

// Plan chooses the GPUs of each replica: dp groups of tp GPUs, sorted by their
// first index. The GPUs of a group are as close to each other as the
// machine allows (see choose). GPUs that cannot be used are left
// out when the user did not name them and enough others remain; Refusals lists
// them. The error is a *Error.
func Plan(inv gpu.Inventory, req Request) ([]gpu.Group, error) {
	req, err := req.normal()
	if err != nil {
		return nil, err
	}
	candidates, err := named(inv, req.GPUs)
	if err != nil {
		return nil, err
	}
	usable, refusals := divide(candidates, req)
	if err := enough(inv, req, candidates, usable, refusals); err != nil {
		return nil, err
	}
	better := slices.DeleteFunc(slices.Clone(usable), func(d gpu.Device) bool { return slices.Contains(req.Avoid, d.UUID) })
	if len(better) >= max(req.DP, 1)*req.TP {
		usable = better
	}
	dp := req.DP
	if dp == 0 {
		dp = len(usable) / req.TP
	}
	return choose(inv, req, usable, dp)
}

// normal fills in defaults and refuses numbers without meaning.
func (req Request) normal() (Request, error) {
	if req.DP < 0 {
		return req, badNumber("--dp", req.DP)
	}
	if req.TP < 0 {
		return req, badNumber("--tp", req.TP)
	}
	req.TP = max(req.TP, 1)
	if req.MinFree == 0 {
		req.MinFree = DefaultMinFree
	}
	return req, nil
}

// named picks the devices that the user listed, or all.
func named(inv gpu.Inventory, indices []int) ([]gpu.Device, error) {
	if indices == nil {
		return inv.Devices, nil
	}
	sorted := slices.Compact(slices.Sorted(slices.Values(indices)))
	if len(sorted) != len(indices) {
		return nil, &Error{Kind: BadNumber,
			What: "`--gpus " + joinInts(indices) + "` names a GPU twice",
			Fix:  "`--gpus " + joinInts(sorted) + "`"}
	}
	var devices []gpu.Device
	for _, index := range sorted {
		i := slices.IndexFunc(inv.Devices, func(d gpu.Device) bool { return d.Index == index })
		if i < 0 {
			return nil, noSuchGPU(inv, index)
		}
		devices = append(devices, inv.Devices[i])
	}
	return devices, nil
}

func noSuchGPU(inv gpu.Inventory, index int) *Error {
	if len(inv.Devices) == 0 {
		return &Error{Kind: NoSuchGPU,
			What: fmt.Sprintf("there is no GPU %d, this machine has none", index),
			Fix:  "`warden up --demo` or `--device cpu`"}
	}
	return &Error{Kind: NoSuchGPU,
		What: fmt.Sprintf("there is no GPU %d, this machine has %s", index, indexRange(inv.Devices)),
		Fix:  "`--gpus` with indices that `warden gpus` shows"}
}

// enough checks the number of usable GPUs. Where too few exist at all, the
// numbers are the news; where refusals cost too many, the refusal is.
func enough(inv gpu.Inventory, req Request, candidates, usable []gpu.Device, refusals []Refusal) error {
	if req.GPUs != nil && len(refusals) > 0 {
		return notUsable(inv, req, refusals)
	}
	need := max(req.DP, 1) * req.TP
	if len(usable) >= need {
		return nil
	}
	if len(candidates) >= need {
		return notUsable(inv, req, refusals)
	}
	return tooFew(inv, req, candidates)
}

// tooFew: `--dp 4 --tp 2` needs 8 GPUs, this machine has 4.
func tooFew(inv gpu.Inventory, req Request, candidates []gpu.Device) *Error {
	have := len(candidates)
	e := &Error{Kind: TooFew}
	where := fmt.Sprintf("this machine has %d", have)
	if req.GPUs != nil {
		where = fmt.Sprintf("`--gpus %s` names %d", joinInts(req.GPUs), have)
	} else if len(inv.Lost) > 0 {
		where += fmt.Sprintf(" and %d that does not answer (%s)", len(inv.Lost), inv.Lost[0].Err)
	}
	need := max(req.DP, 1) * req.TP
	what := "`" + numbers(req.DP, req.TP) + "`"
	if req.DP == 0 && req.TP == 1 {
		what = "a replica" // the user gave no number
	}
	e.What = fmt.Sprintf("%s needs %d %s, %s", what, need, plural(need, "GPU"), where)
	e.Fix = smaller(req, have)
	return e
}

// smaller offers the sizes that have GPUs can fill: the tp asked for with
// fewer replicas, and as many replicas with a smaller tp.
func smaller(req Request, have int) string {
	if have == 0 {
		return "`warden up --demo` or `--device cpu`"
	}
	var offers []string
	if dp := have / req.TP; dp > 0 {
		offers = append(offers, "`"+numbers(dp, req.TP)+"`")
	}
	// A model's heads divide by powers of two, so only those are worth offering.
	tp := 1
	for tp*2*max(req.DP, 1) <= have {
		tp *= 2
	}
	if tp < req.TP && tp*max(req.DP, 1) <= have {
		offers = append(offers, "`"+numbers(req.DP, tp)+"`")
	}
	if len(offers) == 0 {
		offers = append(offers, "`"+numbers(have, 1)+"`")
	}
	return strings.Join(offers, " or ")
}

// numbers writes --dp and --tp as the user would: what is 0 (dp) or 1 (tp,
// beside a dp) stays away.
func numbers(dp, tp int) string {
	switch {
	case dp == 0:
		return "--tp " + strconv.Itoa(tp)
	case tp == 1:
		return "--dp " + strconv.Itoa(dp)
	}
	return fmt.Sprintf("--dp %d --tp %d", dp, tp)
}

func plural(n int, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}

func joinInts(values []int) string {
	words := make([]string, len(values))
	for i, v := range values {
		words[i] = strconv.Itoa(v)
	}
	return strings.Join(words, ",")
}

// indexRange names the indices of devices, which are consecutive: "0 to 3".
func indexRange(devices []gpu.Device) string {
	first, last := devices[0].Index, devices[len(devices)-1].Index
	if first == last {
		return "only GPU " + strconv.Itoa(first)
	}
	return fmt.Sprintf("GPUs %d to %d", first, last)
}
