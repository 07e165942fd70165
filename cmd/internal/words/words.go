// Package words puts figures and lists into the words that warden's answers and
// its command line share.
package words

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

// Count is "1 request", "3 requests".
func Count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

// Listed says which names there are: "the only replica is r0", "the replicas
// are r0, r1".
func Listed[T ~string](what string, names []T) string {
	if len(names) == 1 {
		return fmt.Sprintf("the only %s is %s", what, names[0])
	}
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = string(name)
	}
	return strings.TrimRight(fmt.Sprintf("the %ss are %s", what, strings.Join(all, ", ")), " ")
}

// Short prints a duration in its two largest units: 12s, 3m5s, 2h13m, 4d2h.
func Short(d time.Duration) string {
	switch d = d.Round(time.Second); {
	case d < 0:
		return "0s"
	case d < time.Hour:
		return d.String()
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	default:
		return fmt.Sprintf("%dd%dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
	}
}

// Gigabytes is a size in decimal units, "-" when it is not known.
func Gigabytes(gb float64) string {
	if gb == 0 {
		return "-"
	}
	return humanize.SIWithDigits(gb*1e9, 1, "B")
}
