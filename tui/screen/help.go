package screen

import "github.com/lm-warden/warden/tui/cell"

// glossary says what each column counts, exactly.
var glossary = [][2]string{
	{"REQ", "requests held: placed here, last byte not yet sent"},
	{"STICKY", "live sessions whose home is this replica"},
	{"SPILL", "sessions whose latest turn was served here, away from their home"},
	{"RUN, WAIT", "what the engine runs, and has waiting"},
	{"KV CACHE", "KV blocks of running requests; not how full the prefix cache is"},
	{"HIT", "prompt tokens found in the prefix cache, of those looked up in 60 s"},
	{"PRE", "running requests thrown back to waiting in 60 s"},
	{"TTFT", "time to the first token in the last 60 s: median (TTFT95: 95 of 100)"},
	{"PREFILL", "prompt tokens computed per second, without those from the cache"},
	{"DECODE", "tokens generated per second"},
	{"UTIL W °C", "the GPU: busy share of time, power, temperature (of several: mean, sum, largest)"},
	{"RST", "restarts since warden started"},
	{"all", "sums; the largest of KV; HIT and TTFT over all requests, never a mean of means"},
}

// helpLines tell the keys, from where they are declared, and the columns.
func helpLines(w int, t cell.Theme) []string {
	out := []string{t.Paint(strong, " KEYS")}
	for _, b := range bindings {
		if b.help == "" {
			continue
		}
		words := b.help
		if b.writes {
			words += " *"
		}
		out = append(out, "  "+t.Paint(accent, cell.Left(b.name(t), 11, t.ASCII))+cell.Cut(words, w-14, t.ASCII))
	}
	out = append(out, t.Paint(dim, "  * not with --view. Ctrl-C leaves `top`; in `up` it stops the replicas."), "", t.Paint(strong, " COLUMNS"))
	for _, g := range glossary {
		out = append(out, "  "+t.Paint(accent, cell.Left(g[0], 11, t.ASCII))+cell.Cut(g[1], w-14, t.ASCII))
	}
	return append(out, "", t.Paint(strong, " MARKS"),
		"  "+cell.Left("ready !", 11, t.ASCII)+"something is said about this replica: e explains it",
		"  "+cell.Left(cell.Unknown, 11, t.ASCII)+"not known, which is not zero",
		"  "+cell.Left("stale 14s", 11, t.ASCII)+"the engine's figures are that old and decide nothing")
}
