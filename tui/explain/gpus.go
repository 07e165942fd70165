package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lm-warden/warden/supervisor/control"
)

// held tells that no engine can start, which nobody notices while those that run go on.
func held(s control.Status) []Finding {
	if s.Hold == nil {
		return nil
	}
	ready := s.Count(control.StateReady)
	return []Finding{{
		Level:    Bad,
		Short:    "no engine can start, those that run go on: " + s.Hold.Cause,
		Cause:    "No engine can start: " + s.Hold.Cause + ".",
		Evidence: fmt.Sprintf("So since %s; %d of %d replicas go on. Nothing is restarted meanwhile.", s.Hold.Since.Format("15:04:05"), ready, len(s.Replicas)),
		Remedy:   orLook(s.Hold.Fix),
	}}
}

// setAside tells of GPUs that are not used because of a fault. A replica that is parked for it tells of it itself.
func setAside(s control.Status) []Finding {
	var out []Finding
	for _, g := range s.GPUs {
		if g.Aside == nil || slices.ContainsFunc(s.Replicas, func(r control.Replica) bool { return r.ID == g.Replica && r.State == control.StateParked }) {
			continue
		}
		f := Finding{
			Level:    Bad,
			Short:    fmt.Sprintf("GPU %d is set aside: %s", g.Index, g.Aside.Cause),
			Cause:    fmt.Sprintf("GPU %d (%s) is not used any more: %s.", g.Index, g.Name, g.Aside.Cause),
			Evidence: gpuFacts(g),
			Remedy:   orLook(g.Aside.Fix),
		}
		f.Replicas, f.Model = on(s, g)
		out = append(out, f)
	}
	return out
}

// unread tells of GPUs whose figures are missing, which harms nothing else.
func unread(s control.Status) []Finding {
	var out []Finding
	for _, g := range s.GPUs {
		if g.UnavailableReason == "" || g.Aside != nil {
			continue
		}
		f := Finding{
			Level:    Note,
			Short:    fmt.Sprintf("GPU %d cannot be read: %s", g.Index, g.UnavailableReason),
			Cause:    fmt.Sprintf("GPU %d (%s) cannot be read: %s.", g.Index, g.Name, g.UnavailableReason),
			Evidence: "Its figures are missing; requests are served as before.",
			Remedy:   orLook(g.UnavailableFix),
		}
		f.Replicas, f.Model = on(s, g)
		out = append(out, f)
	}
	return out
}

// orLook is what to do where no fix is known.
func orLook(fix string) string {
	if fix == "" {
		return "`warden doctor` looks at the driver and every GPU."
	}
	return strings.ToUpper(fix[:1]) + fix[1:] + "."
}

// on returns the replicas on a GPU, and their model.
func on(s control.Status, g control.GPU) (ids []string, model string) {
	for _, r := range s.Replicas {
		if slices.Contains(r.GPUs, g.Index) {
			ids, model = append(ids, r.ID), r.Model
		}
	}
	return ids, model
}

// throttled tells of GPUs that run slower than they could.
func throttled(s control.Status) []Finding {
	var out []Finding
	for _, g := range s.GPUs {
		if len(g.Throttled) == 0 {
			continue
		}
		f := Finding{
			Level:    Note,
			Short:    fmt.Sprintf("GPU %d is slowed down: %s", g.Index, strings.Join(g.Throttled, ", ")),
			Cause:    fmt.Sprintf("GPU %d (%s) is slowed down by %s.", g.Index, g.Name, strings.Join(g.Throttled, ", ")),
			Evidence: gpuFacts(g),
			Remedy:   "Check cooling and the power limit: `nvidia-smi -q -d PERFORMANCE,POWER -i " + fmt.Sprint(g.Index) + "`.",
		}
		f.Replicas, f.Model = on(s, g)
		out = append(out, f)
	}
	return out
}

func gpuFacts(g control.GPU) string {
	var facts []string
	if g.TemperatureC != nil {
		facts = append(facts, fmt.Sprintf("%.0f °C", *g.TemperatureC))
	}
	if g.PowerWatts != nil {
		facts = append(facts, fmt.Sprintf("%.0f W", *g.PowerWatts))
	}
	if g.Utilization != nil {
		facts = append(facts, fmt.Sprintf("%.0f%% busy", *g.Utilization*100))
	}
	if len(facts) == 0 {
		return "The driver reports the reason."
	}
	return "The driver reports it at " + strings.Join(facts, ", ") + "."
}
