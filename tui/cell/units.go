package cell

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// Count writes a number of things in at most five cells: 412, 3.1k, 67k, 1.2M.
func Count(v float64) string {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return Unknown
	case v < 0:
		return "-" + Count(-v)
	case v < 999.5:
		return strconv.FormatFloat(math.Round(v), 'f', 0, 64)
	}
	for _, unit := range []string{"k", "M", "G"} {
		v /= 1000
		if v < 99.95 && math.Round(v*10) != math.Round(v)*10 {
			return strconv.FormatFloat(v, 'f', 1, 64) + unit
		}
		if v < 999.5 {
			return strconv.FormatFloat(v, 'f', 0, 64) + unit
		}
	}
	return strconv.FormatFloat(v/1000, 'g', 3, 64) + "T"
}

// Rate writes events per second: one decimal below ten.
func Rate(v float64) string {
	if v > 0 && v < 9.95 {
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return Count(v)
}

// Bytes writes a size in binary units of one letter, as nvidia-smi users read them: 14.6G.
func Bytes(n uint64) string {
	const step = 1024
	v := float64(n)
	for _, unit := range []string{"B", "K", "M", "G"} {
		if v < step {
			if unit == "B" || v >= 99.95 {
				return fmt.Sprintf("%.0f%s", v, unit)
			}
			return fmt.Sprintf("%.1f%s", v, unit)
		}
		v /= step
	}
	return fmt.Sprintf("%.1fT", v)
}

// Percent writes a ratio from 0 to 1.
func Percent(ratio float64) string {
	if math.IsNaN(ratio) {
		return Unknown
	}
	return strconv.Itoa(int(math.Round(ratio*100))) + "%"
}

// Seconds writes a latency: 0.28s, 1.20s, 12.3s, 2m05s.
func Seconds(s float64) string {
	switch {
	case math.IsNaN(s) || s < 0:
		return Unknown
	case s < 9.995:
		return strconv.FormatFloat(s, 'f', 2, 64) + "s"
	case s < 59.95:
		return strconv.FormatFloat(s, 'f', 1, 64) + "s"
	default:
		return Age(time.Duration(s * float64(time.Second)))
	}
}

// Age writes a span in at most six cells: 3s, 12m, 2h14m, 5d.
func Age(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d/time.Second))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d/time.Minute))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d/time.Hour), int(d/time.Minute)%60)
	default:
		return fmt.Sprintf("%dd", int(d/(24*time.Hour)))
	}
}

// Clock writes a span as a stopwatch shows it: 0:38, 12:05, 1:00:00.
func Clock(d time.Duration) string {
	s := max(0, int(d/time.Second))
	if s >= 3600 {
		return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
	}
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}
