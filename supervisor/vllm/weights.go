package vllm

import (
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
	env := map[string]string{}
	for _, kv := range environ {
		if name, value, ok := strings.Cut(kv, "="); ok {
			env[name] = value
		}
	}
	cache := hubCache(env)
	if dir, ok := argument(args, "--download-dir"); ok {
		cache = dir
	}
	revision, ok := argument(args, "--revision")
	if !ok {
		revision = "main"
	}
	return Weights{Dir: cache, Download: true, Complete: snapshotComplete(repoDir(cache, repo), revision)}
}

// repoDir is where huggingface_hub keeps one repository.
func repoDir(cache, repo string) string {
	return filepath.Join(cache, "models--"+strings.ReplaceAll(repo, "/", "--"))
}
