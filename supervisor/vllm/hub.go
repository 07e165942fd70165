package vllm

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"github.com/lm-warden/warden/supervisor"
)

// otherSources are arguments by which vLLM may load something besides the
// model's own repository; then it is not kept offline.
var otherSources = []string{
	"--tokenizer", "--hf-config-path", "--speculative-config", "--lora-modules", "--trust-remote-code",
	"--code-revision", "--tokenizer-revision", "--generation-config", "--download-dir", "--load-format",
	"--quantization", "-q", "--config",
}

// local reports whether everything that the replica loads is on this disk
// already, so that the engine can start without asking Hugging Face: faster,
// and not at the mercy of the network. When in doubt it says no.
func local(s supervisor.Spec, env map[string]string) bool {
	if filepath.IsAbs(s.Repo) {
		return true // a directory, or a mistake that no download will mend
	}
	if given(s.Args, otherSources...) {
		return false
	}
	revision, ok := argument(s.Args, "--revision")
	if !ok {
		revision = "main"
	}
	return snapshotComplete(repoDir(hubCache(env), s.Repo), revision)
}

// hubCache is the directory where huggingface_hub keeps repositories.
func hubCache(env map[string]string) string {
	if d := env["HF_HUB_CACHE"]; d != "" {
		return d
	}
	if d := env["HF_HOME"]; d != "" {
		return filepath.Join(d, "hub")
	}
	if d := env["XDG_CACHE_HOME"]; d != "" {
		return filepath.Join(d, "huggingface", "hub")
	}
	return filepath.Join(env["HOME"], ".cache", "huggingface", "hub")
}

// snapshotComplete reports whether a repository's revision has its
// configuration, a tokenizer and all weights. Files of a snapshot are links to
// blobs, which get their name only when they are whole.
func snapshotComplete(repo, revision string) bool {
	dir := snapshot(repo, revision)
	return anyFile(dir, "config.json", "params.json") &&
		anyFile(dir, "tokenizer.json", "tokenizer.model", "vocab.json", "tekken.json", "*.tiktoken") &&
		weightsComplete(dir)
}

// snapshot is the directory of a repository's revision, which need not exist.
func snapshot(repo, revision string) string {
	commit := revision
	if raw, err := os.ReadFile(filepath.Join(repo, "refs", revision)); err == nil {
		commit = strings.TrimSpace(string(raw))
	}
	return filepath.Join(repo, "snapshots", commit)
}

func weightsComplete(dir string) bool {
	indexes, _ := filepath.Glob(filepath.Join(dir, "*.safetensors.index.json"))
	if len(indexes) == 0 {
		return anyFile(dir, "model.safetensors", "consolidated.safetensors", "pytorch_model.bin")
	}
	for _, index := range indexes {
		raw, err := os.ReadFile(index)
		if err != nil {
			return false
		}
		var parsed struct {
			WeightMap map[string]string `json:"weight_map"`
		}
		if json.Unmarshal(raw, &parsed) != nil || len(parsed.WeightMap) == 0 {
			return false
		}
		for _, file := range parsed.WeightMap {
			if !anyFile(dir, filepath.Base(file)) {
				return false
			}
		}
	}
	return true
}

// anyFile reports whether one of the patterns matches a file that is there, not
// a dangling link.
func anyFile(dir string, patterns ...string) bool {
	for _, p := range patterns {
		found, _ := filepath.Glob(filepath.Join(dir, p))
		for _, path := range found {
			if info, err := os.Stat(path); err == nil && !info.IsDir() {
				return true
			}
		}
	}
	return false
}
