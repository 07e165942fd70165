package advise

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/lm-warden/warden/supervisor/control/advice"
)

// Print writes a report for people.
func Print(w io.Writer, r advice.Report) error {
	if r.Simulated {
		fmt.Fprintln(w, "SIMULATED engines: no figure here was measured on a GPU")
	}
	fmt.Fprintf(w, "From %s to %s.\n", r.Since.Local().Format("15:04"), r.Until.Local().Format("15:04"))
	for _, m := range r.Models {
		fmt.Fprintf(w, "\n%s: %s.\n", m.Alias, m.Summary)
		if m.Verdict == advice.NoLoad {
			continue
		}
		if err := figures(w, m.Load); err != nil {
			return err
		}
		if err := remedies(w, m.Remedies); err != nil {
			return err
		}
	}
	return nil
}

// figures are what the summary rests on.
func figures(w io.Writer, l advice.Load) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "\nIN USE\tMEAN\tPEAK\tHOLDS")
	fmt.Fprintf(tw, "conversations\t%.1f\t%d\t%s\n", l.Sessions, l.PeakSessions, orDash(l.Fits()))
	fmt.Fprintf(tw, "KV tokens\t%s\t%s\t%s\n", advice.Count(l.Need), advice.Count(l.PeakNeed), advice.Count(l.Capacity))
	fmt.Fprintf(tw, "one conversation\t%s\t%s\t%s\n", advice.Count(l.SessionTokens), advice.Count(l.LargestSession), advice.Count(l.Replica))
	fmt.Fprintf(tw, "waiting in engines\t%.1f\t-\t-\n", l.Waiting)
	fmt.Fprintf(tw, "held back by warden\t-\t%d\t-\n", l.PeakQueued)
	return tw.Flush()
}

func remedies(w io.Writer, list []advice.Remedy) error {
	if len(list) == 0 {
		return nil
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "\nWHAT WOULD HELP\tFITS\tTRY\tWHY")
	for _, helps := range []bool{true, false} {
		for _, r := range list {
			if r.Helps != helps {
				continue
			}
			what, try := names[r.Kind], r.Try
			if !helps {
				what = "(" + what + ")"
			}
			if try == "" {
				try = "-"
			}
			fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", what, orDash(r.Sessions), try, r.Text)
		}
	}
	return tw.Flush()
}

// names of remedies; one in brackets is none here.
var names = map[string]string{
	advice.FewerSessions: "fewer conversations", advice.Admission: "admission", advice.HostTier: "tier in host memory",
	advice.FP8KV: "8-bit KV cache", advice.TensorParallel: "tensor parallel", advice.Context: "shorter context", advice.BatchLimit: "lower batch limit",
}

func orDash(n int) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}
