package plan

import (
	"fmt"

	"github.com/lm-warden/warden/configs"
	"github.com/lm-warden/warden/gpu"
)

// Row is a model of the catalogue and what this machine can do with it.
type Row struct {
	Alias     string  `json:"alias"`
	Repo      string  `json:"repo"`
	WeightsGB float64 `json:"weights_gb,omitempty"`
	Fits      string  `json:"fits_here"`
	Note      string  `json:"note,omitempty"`
}

// Catalogue says for each entry how many GPUs of this machine hold its weights.
func Catalogue(entries []configs.Entry, inv gpu.Inventory) []Row {
	largest, count := largestMemory(inv, nil)
	rows := make([]Row, 0, len(entries))
	for _, e := range entries {
		row := Row{Alias: e.Alias, Repo: e.Repo, WeightsGB: e.WeightsGB, Fits: "-", Note: e.Note}
		switch {
		case e.Alias == configs.Tiny:
			row.Fits = "--device cpu"
		case e.WeightsGB > 0 && largest > 0:
			row.Fits = "no"
			if tp := fittingTP(e.WeightsGB, largest, count, usableShare); tp > 0 {
				row.Fits = fmt.Sprintf("--tp %d", tp)
			}
		}
		rows = append(rows, row)
	}
	return rows
}
