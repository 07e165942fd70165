package configs

import (
	_ "embed"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

//go:embed models.yaml
var modelsYAML []byte

// Entry is one short name of the catalogue.
type Entry struct {
	// Alias is the short name, Repo the Hugging Face repository it stands for.
	Alias string `mapstructure:"alias" yaml:"alias"`
	Repo  string `mapstructure:"repo" yaml:"repo"`
	// WeightsGB is the size of the weights in GB (10^9 bytes), for display and
	// the check whether the model fits.
	WeightsGB float64 `mapstructure:"weights_gb" yaml:"weights_gb"`
	// KVBytesPerToken is the KV cache of one token in bytes at the default
	// dtype: 2 x layers x KV heads x head size x bytes of the dtype. 0: unknown.
	KVBytesPerToken int `mapstructure:"kv_bytes_per_token" yaml:"kv_bytes_per_token"`
	// Args are vLLM arguments that the model needs to serve agents (parsers).
	Args []string `mapstructure:"args" yaml:"args"`
	// MaxNumSeqs is the concurrent-sequence limit used unless the user sets one.
	MaxNumSeqs int `mapstructure:"max_num_seqs" yaml:"max_num_seqs"`
	// Note is shown by `warden models`.
	Note string `mapstructure:"note" yaml:"note"`
}

// Tiny is the alias of the built-in random model, whose files warden writes
// itself: it needs no download and no GPU.
const Tiny = "tiny"

// Builtin returns the catalogue that ships with warden.
func Builtin() []Entry {
	var entries []Entry
	if err := yaml.Unmarshal(modelsYAML, &entries); err != nil {
		panic("configs: embedded models.yaml: " + err.Error()) // a test reads it
	}
	return entries
}

// Merge returns base with the entries of extra added; same aliases are replaced.
func Merge(base, extra []Entry) []Entry {
	merged := slices.Clone(base)
	for _, e := range extra {
		i := slices.IndexFunc(merged, func(b Entry) bool { return b.Alias == e.Alias })
		if i < 0 {
			merged = append(merged, e)
		} else {
			merged[i] = e
		}
	}
	return merged
}

// UnknownModelError names a model that is neither in the catalogue nor a
// repository.
type UnknownModelError struct {
	Name    string
	Nearest string // "" when nothing is close
}

func (e *UnknownModelError) Error() string {
	msg := fmt.Sprintf("unknown model %q", e.Name)
	if e.Nearest != "" {
		msg += fmt.Sprintf(", did you mean %s?", e.Nearest)
	}
	return msg
}

// Hint is the way out.
func (e *UnknownModelError) Hint() string {
	return "`warden models` lists the short names; a name with \"/\" is taken as a repository or a directory"
}

// Lookup finds name as an alias or a repository. A name with "/" that is not
// listed is taken as a repository or directory of its own.
func Lookup(catalogue []Entry, name string) (Entry, error) {
	for _, e := range catalogue {
		if strings.EqualFold(e.Alias, name) || strings.EqualFold(e.Repo, name) {
			return e, nil
		}
	}
	if strings.Contains(name, "/") {
		return Entry{Alias: aliasOf(name), Repo: name}, nil
	}
	names := make([]string, 0, len(catalogue))
	for _, e := range catalogue {
		names = append(names, e.Alias)
	}
	return Entry{}, &UnknownModelError{Name: name, Nearest: Nearest(name, names)}
}

func aliasOf(repo string) string {
	return strings.ToLower(filepath.Base(strings.TrimRight(repo, "/")))
}

// Nearest returns the candidate with the smallest edit distance to name, or ""
// when none is within a third of its length (at least 2 edits).
func Nearest(name string, candidates []string) string {
	best, limit := "", max(2, len(name)/3)
	for _, c := range candidates {
		if d := editDistance(strings.ToLower(name), strings.ToLower(c)); d <= limit && (best == "" || d < limit) {
			best, limit = c, d
		}
	}
	return best
}

// editDistance is the Levenshtein distance in bytes.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			diagonal, row[j] = row[j], min(row[j]+1, row[j-1]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
