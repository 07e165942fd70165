// Package setup makes the vLLM installation that warden manages itself: a
// Python virtual environment that holds one version of vLLM, for NVIDIA GPUs
// or for the CPU.
//
// Reader's path: [Setup] (setup.go) takes the lock (lock.go), checks what must
// be there before anything is downloaded (check.go, python.go), and walks the
// steps of a recipe (recipe.go: a list of values for "cuda" and one for
// "cpu"). Each step runs through a [Runner] (run.go) with the commands of an
// installer (installer.go: uv when it is present, else pip). The journal
// (journal.go) names the finished steps and, in the end, that the environment
// is complete; [Find] (find.go) sees complete environments only.
//
// # Interrupting and repeating
//
// A virtual environment holds its own absolute path in many files, so it
// cannot be built elsewhere and renamed. It is built in place, and the journal
// inside it is the marker: written before the first file, completed after the
// last check. Every step may be run twice. An interrupted setup goes on where
// it stopped; a directory without a journal is somebody else's and is never
// touched.
//
// # Where packages come from
//
// From the index that the user's pip is configured for, and nothing else,
// except for CUDA builds that PyPI does not carry (see cudaBuilds). To get the
// small CPU build of torch instead of the CUDA build (about 3 GB to download,
// and it works on the CPU as well), set
//
//	PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu
//
// # A real engine for tests
//
// Tests look for an environment with [Find] in warden's cache directory
// (os.UserCacheDir()/warden). To make one there:
//
//	go run ./cmd/warden setup --device cpu
package setup
