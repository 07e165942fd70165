package vllm

import (
	"fmt"
	"strings"
)

// Advisory is a published hole of vLLM that a client of warden can reach.
type Advisory struct {
	ID           string // https://osv.dev/vulnerability/<ID>
	Since, Fixed string // versions; Since "" is from the first on
	What         string // what a client can do
}

// advisories concern OldestVersion and newer, as published on osv.dev until
// 2026-11-30. Left out is what does not get through warden: /inference/v1/generate
// (CVE-2026-105754, PYSEC-2026-4353) is none of its paths, and an engine sees no
// method of a client's invention (PYSEC-2026-4325).
var advisories = []Advisory{
	{"PYSEC-2026-4000", "", "0.30.0", "bad_words of one request falsify the answers of others"},
	{"PYSEC-2026-4199", "", "0.30.0", "a faulty structured-output request ends the engine"},
	{"CVE-2026-105760", "", "0.30.0", "a small video with large fps takes CPU and memory"},
	{"PYSEC-2026-4344", "0.19.0", "0.32.0", "a chat template without end blocks all requests"},
	{"PYSEC-2026-4349", "0.16.0", "0.32.0", "/v1/responses takes a chat template also where that is not trusted"},
}

// Advisories are those of a version. One that cannot be read has none.
func Advisories(s string) []Advisory {
	v, ok := parseVersion(s)
	if !ok {
		return nil
	}
	var out []Advisory
	for _, a := range advisories {
		since, _ := parseVersion(a.Since) // zero for ""
		if fixed, _ := parseVersion(a.Fixed); v.compare(since) >= 0 && v.compare(fixed) < 0 {
			out = append(out, a)
		}
	}
	return out
}

// advised puts the advisories of a version into one warning, "" when it has none.
func advised(s string) string {
	all := Advisories(s)
	if len(all) == 0 {
		return ""
	}
	var texts []string
	newest, fixed := version{}, ""
	for _, a := range all {
		texts = append(texts, fmt.Sprintf("%s (%s)", a.ID, a.What))
		if v, _ := parseVersion(a.Fixed); v.compare(newest) > 0 {
			newest, fixed = v, a.Fixed
		}
	}
	return fmt.Sprintf("vLLM %s has known holes, all closed in %s: %s", plain(s), fixed, strings.Join(texts, "; "))
}
