package vllm

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/lm-warden/warden/supervisor"
)

// repository makes a snapshot as huggingface_hub lays it out: links to blobs.
// A name with "!" in front is a link to a blob that is not there.
func repository(t *testing.T, hub string, files map[string]string) {
	t.Helper()
	repo := filepath.Join(hub, "models--o--m")
	place(t, "abc123\n", repo, "refs", "main")
	for name, text := range files {
		missing := name[0] == '!'
		if missing {
			name = name[1:]
		}
		blob := filepath.Join(repo, "blobs", name)
		if !missing {
			place(t, text, blob)
		}
		link := filepath.Join(repo, "snapshots", "abc123", name)
		if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(blob, link); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOfflineWhenComplete(t *testing.T) {
	const index = `{"weight_map":{"a":"model-1.safetensors","b":"model-2.safetensors"}}`
	sharded := map[string]string{
		"config.json": "{}", "tokenizer.json": "{}", "model.safetensors.index.json": index,
		"model-1.safetensors": "x", "model-2.safetensors": "x",
	}
	with := func(change map[string]string, drop ...string) map[string]string {
		out := map[string]string{}
		for k, v := range sharded {
			out[k] = v
		}
		for _, k := range drop {
			delete(out, k)
		}
		for k, v := range change {
			out[k] = v
		}
		return out
	}
	for name, tc := range map[string]struct {
		files map[string]string
		args  []string
		want  bool
	}{
		"sharded":             {files: sharded, want: true},
		"one file":            {files: map[string]string{"config.json": "{}", "vocab.json": "{}", "model.safetensors": "x"}, want: true},
		"a shard is missing":  {files: with(nil, "model-2.safetensors")},
		"a shard is half":     {files: with(map[string]string{"!model-2.safetensors": ""}, "model-2.safetensors")},
		"no tokenizer":        {files: with(nil, "tokenizer.json")},
		"no configuration":    {files: with(nil, "config.json")},
		"an index of nothing": {files: with(map[string]string{"model.safetensors.index.json": "{}"})},
		"a spoilt index":      {files: with(map[string]string{"model.safetensors.index.json": "{"})},
		"nothing":             {files: map[string]string{}},
		"another tokenizer":   {files: sharded, args: []string{"--tokenizer", "o/t"}},
		"other revision":      {files: sharded, args: []string{"--revision", "v2"}},
		"revision by commit":  {files: sharded, args: []string{"--revision=abc123"}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			repository(t, filepath.Join(home, ".cache/huggingface/hub"), tc.files)
			s := supervisor.Spec{Repo: "o/m", Args: tc.args}
			if got := local(s, map[string]string{"HOME": home}); got != tc.want {
				t.Errorf("local = %v", got)
			}
		})
	}
}

func TestHubCache(t *testing.T) {
	for want, env := range map[string]map[string]string{
		"/a":                        {"HF_HUB_CACHE": "/a", "HF_HOME": "/b", "HOME": "/h"},
		"/b/hub":                    {"HF_HOME": "/b", "XDG_CACHE_HOME": "/x", "HOME": "/h"},
		"/x/huggingface/hub":        {"XDG_CACHE_HOME": "/x", "HOME": "/h"},
		"/h/.cache/huggingface/hub": {"HOME": "/h"},
	} {
		if got := hubCache(env); got != want {
			t.Errorf("hubCache(%v) = %s, want %s", env, got, want)
		}
	}
}

func TestFindWeights(t *testing.T) {
	home := t.TempDir()
	hub := filepath.Join(home, ".cache/huggingface/hub")
	whole := map[string]string{"config.json": "{}", "tokenizer.json": "{}", "model.safetensors": "x"}
	repository(t, hub, whole)
	repository(t, filepath.Join(home, "elsewhere"), map[string]string{"config.json": "{}"})
	own := filepath.Join(home, "own")
	for name, text := range whole {
		place(t, text, own, name)
	}
	for name, tc := range map[string]struct {
		repo string
		args []string
		want Weights
	}{
		"cached":            {repo: "o/m", want: Weights{Dir: hub, Download: true, Complete: true}},
		"unknown":           {repo: "o/other", want: Weights{Dir: hub, Download: true}},
		"another revision":  {repo: "o/m", args: []string{"--revision", "v2"}, want: Weights{Dir: hub, Download: true}},
		"half, in a folder": {repo: "o/m", args: []string{"--download-dir", filepath.Join(home, "elsewhere")}, want: Weights{Dir: filepath.Join(home, "elsewhere"), Download: true}},
		"a directory":       {repo: own, want: Weights{Dir: own, Complete: true}},
		"an empty one":      {repo: home, want: Weights{Dir: home}},
	} {
		if got := FindWeights(tc.repo, tc.args, []string{"HOME=" + home}); got != tc.want {
			t.Errorf("%s: %+v, want %+v", name, got, tc.want)
		}
	}
}

func TestModelDirAndItsWeights(t *testing.T) {
	home := t.TempDir()
	hub := filepath.Join(home, ".cache/huggingface/hub")
	repository(t, hub, map[string]string{
		"config.json": "{}", "model.safetensors.index.json": `{"weight_map":{"a":"model-1.safetensors","b":"model-2.safetensors"}}`,
		"model-1.safetensors": "12345", "model-2.safetensors": "123", "consolidated.safetensors": "12345678",
	})
	own, old, half := filepath.Join(home, "own"), filepath.Join(home, "old"), filepath.Join(home, "half")
	place(t, "{}", own, "config.json")
	place(t, "{}", old, "config.json")
	place(t, "1234", old, "pytorch_model.bin")
	place(t, "{}", half, "config.json")
	place(t, `{"weight_map":{"a":"model-1.safetensors","b":"model-2.safetensors"}}`, half, "model.safetensors.index.json")
	place(t, "1234", half, "model-1.safetensors")
	for _, tc := range []struct {
		repo  string
		args  []string
		dir   string
		bytes uint64
	}{
		{"o/m", nil, filepath.Join(hub, "models--o--m/snapshots/abc123"), 8},
		{"o/m", []string{"--revision", "abc123"}, filepath.Join(hub, "models--o--m/snapshots/abc123"), 8},
		{"o/m", []string{"--revision", "v2"}, "", 0},
		{"o/other", nil, "", 0},
		{own, nil, own, 0},
		{old, nil, old, 4},
		{half, nil, half, 0},
	} {
		dir := ModelDir(tc.repo, tc.args, []string{"HOME=" + home})
		if dir != tc.dir || dir != "" && WeightsBytes(dir) != tc.bytes {
			t.Errorf("%s %v: %q with %d bytes, want %q with %d", tc.repo, tc.args, dir, WeightsBytes(dir), tc.dir, tc.bytes)
		}
	}
}
