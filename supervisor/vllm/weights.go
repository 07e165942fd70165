package vllm

import (
	"os"
	"path/filepath"
	"strings"
)

// Weights is where an engine would load a model from.
type Weights struct {
	Dir      string // the model's own directory, or the cache it is downloaded to
	Download bool   // it comes from Hugging Face; otherwise Dir is the user's
	Complete bool   // everything needed to start is there
}

// FindWeights looks for a model's files as an engine with these arguments and
// this environment (KEY=VALUE) would. It reads directories and starts nothing.
func FindWeights(repo string, args, environ []string) Weights {
	if filepath.IsAbs(repo) {
		return Weights{Dir: repo, Complete: anyFile(repo, "config.json", "params.json") && weightsComplete(repo)}
	}
	cache, revision := download(args, environ)
	return Weights{Dir: cache, Download: true, Complete: snapshotComplete(repoDir(cache, repo), revision)}
}

// download is where vLLM puts a repository's files, and which revision it takes.
func download(args, environ []string) (cache, revision string) {
	env := map[string]string{}
	for _, kv := range environ {
		if name, value, ok := strings.Cut(kv, "="); ok {
			env[name] = value
		}
	}
	cache = hubCache(env)
	if dir, ok := argument(args, "--download-dir"); ok {
		cache = dir
	}
	revision, ok := argument(args, "--revision")
	if !ok {
		revision = "main"
	}
	return cache, revision
}

// ModelDir is the directory with a model's config.json as an engine with these
// arguments and this environment would find it, "" while it is not here.
func ModelDir(repo string, args, environ []string) string {
	dir := repo
	if !filepath.IsAbs(repo) {
		cache, revision := download(args, environ)
		dir = snapshot(repoDir(cache, repo), revision)
	}
	if !anyFile(dir, "config.json") {
		return ""
	}
	return dir
}

// WeightsBytes is the size of the weights in a model's directory, 0 while they
// are not all there.
func WeightsBytes(dir string) uint64 {
	if !weightsComplete(dir) {
		return 0
	}
	var total uint64
	for _, pattern := range []string{"*.safetensors", "pytorch_model*.bin"} {
		found, _ := filepath.Glob(filepath.Join(dir, pattern))
		for _, path := range found {
			if info, err := os.Stat(path); err == nil && filepath.Base(path) != "consolidated.safetensors" {
				total += uint64(info.Size())
			}
		}
		if total > 0 {
			break // the same weights in the older form
		}
	}
	return total
}

// repoDir is where huggingface_hub keeps one repository.
func repoDir(cache, repo string) string {
	return filepath.Join(cache, "models--"+strings.ReplaceAll(repo, "/", "--"))
}
